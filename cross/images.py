"""images.py BINARY: finds the GPU's code in a binary by its content, and prints the faults or "ok: ...".

The build deflates each image (zlib). Each source of kernels must have one cubin for sm_87 and one PTX, and the driver of
JetPack 6.2 must load all of them.
"""

import collections
import itertools
import pathlib
import re
import struct
import sys
import zlib

# JetPack 6.2's driver is that of CUDA 12.6: it loads cubins whose ELF ABI is 7, and PTX up to 8.5.
NEWEST_ABI, NEWEST_PTX = 7, (8, 5)
# An ELF header of 64 bits, for CUDA (machine 190).
CUBIN = re.compile(rb"\x7fELF\x02\x01\x01.{9}\x02\x00\xbe\x00", re.DOTALL)
PTX = re.compile(rb"\.version +(\d+)\.(\d+)\s+\.target +(\w+)")
# The header of zlib's best compression.
DEFLATED = re.compile(rb"\x78\xda")


def images(data):
    """Yields each image, inflated."""
    for found in DEFLATED.finditer(data):
        rest = memoryview(data)[found.start() :]
        try:
            # Most matches of the header are other data.
            begin = zlib.decompressobj().decompress(rest[:4096], 256)
            if CUBIN.match(begin) or PTX.search(begin):
                yield zlib.decompressobj().decompress(rest)
        except zlib.error:
            continue


def cubins(data):
    """Yields the ABI, the architecture and the kernels of each cubin."""
    for found in CUBIN.finditer(data):
        elf = memoryview(data)[found.start() :]
        abi, flags = elf[8], elf[48:52]
        # The architecture's place changed with ABI 8, of CUDA 13.
        architecture = f"sm_{flags[1] if abi >= 8 else flags[0]}"
        (table,) = struct.unpack_from("<Q", elf, 40)
        size, count, names = struct.unpack_from("<HHH", elf, 58)
        sections = [struct.unpack_from("<I20xQQ", elf, table + size * index) for index in range(count)]
        start, length = sections[names][1:]
        strings = bytes(elf[start : start + length])
        texts = [strings[name : strings.index(b"\0", name)].decode() for name, _, _ in sections]
        yield abi, architecture, [text.removeprefix(".text.") for text in texts if text.startswith(".text.")]


def ptx(data):
    """Yields the version, the target and the kernels of each PTX."""
    for found in PTX.finditer(data):
        text = data[found.start() :]
        kernels = re.findall(rb"\.entry +(\w+)", text)
        yield (int(found[1]), int(found[2])), found[3].decode(), [name.decode() for name in kernels]


def faults(found, sources):
    """Yields the faults. The kernels identify a source, and the first of them names it."""
    counts = collections.defaultdict(lambda: {"images": 0, "PTX": 0})
    for abi, architecture, kernels in itertools.chain.from_iterable(map(cubins, found)):
        if abi > NEWEST_ABI:
            yield f"has an {architecture} image of ABI {abi}, of CUDA 13 or later: JetPack 6.2's driver loads ABI {NEWEST_ABI}"
        if architecture == "sm_87":
            counts[frozenset(kernels)]["images"] += 1
    for version, target, kernels in itertools.chain.from_iterable(map(ptx, found)):
        if version > NEWEST_PTX:
            yield "has PTX %d.%d: JetPack 6.2's driver takes up to %d.%d" % (version + NEWEST_PTX)
        if target == "sm_87":
            counts[frozenset(kernels)]["PTX"] += 1
    for kernels, kinds in counts.items():
        for kind, number in kinds.items():
            if number != 1:
                yield f"has {number} sm_87 {kind} of {min(kernels, default='nothing')}, not one"
    if len(counts) != sources:
        yield f"has sm_87 kernels of {len(counts)} sources, and there are {sources}"


def main(binary):
    sources = sum(1 for _ in (pathlib.Path(__file__).parent.parent / "kernels").rglob("*.cu"))
    found = list(images(pathlib.Path(binary).read_bytes()))
    wrong = list(faults(found, sources))
    print("\n".join(wrong) if wrong else f"ok: {sources} sm_87 images, each with PTX")


main(*sys.argv[1:])

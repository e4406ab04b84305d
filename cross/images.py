"""images.py BINARY [own]: finds the GPU's code in a binary, by what it contains, and prints what is wrong with it.

Each source of kernels must have exactly one image for sm_87, and one of PTX; and the driver of JetPack 6.2 must load
them all, unless the binary is for this machine alone ("own"). Prints "ok: ..." where all is well. It runs nothing.
"""

import pathlib
import re
import struct
import sys

# JetPack 6.2's driver is that of CUDA 12.6: it loads cubins whose ELF ABI is 7, and PTX up to 8.5.
NEWEST_ABI, NEWEST_PTX = 7, (8, 5)
# An ELF header of 64 bits, for CUDA (machine 190).
CUBIN = re.compile(rb"\x7fELF\x02\x01\x01.{9}\x02\x00\xbe\x00", re.DOTALL)
PTX = re.compile(rb"\.version +(\d+)\.(\d+)\s+\.target +(\w+)")


def cubins(data):
    """The ABI, the architecture and the kernels of each cubin."""
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
    """The version, the target and the kernels of each PTX."""
    for found in PTX.finditer(data):
        text = data[found.start() : data.index(b"\0", found.end())]
        kernels = re.findall(rb"\.entry +(\w+)", text)
        yield (int(found[1]), int(found[2])), found[3].decode(), [name.decode() for name in kernels]


def faults(data, sources, is_own):
    """What is wrong, and how many images there are of each source: a kernel is named like its source, or begins so."""
    counts = {(source, kind): 0 for source in sources for kind in ("images", "PTX")}

    def count(kind, kernels):
        owners = {max((s for s in sources if f"{name}_".startswith(f"{s}_")), key=len, default=name) for name in kernels}
        for owner in owners or {"nothing"}:
            if owner in sources:
                counts[owner, kind] += 1
            else:
                yield f"has sm_87 {kind} of {owner}, which is no source of kernels"

    for abi, architecture, kernels in cubins(data):
        if abi > NEWEST_ABI and not is_own:
            yield f"has an {architecture} image of ABI {abi}, of CUDA 13 or later: JetPack 6.2's driver loads ABI {NEWEST_ABI}"
        if architecture == "sm_87":
            yield from count("images", kernels)
    for version, target, kernels in ptx(data):
        if version > NEWEST_PTX and not is_own:
            yield "has PTX %d.%d: JetPack 6.2's driver takes up to %d.%d" % (version + NEWEST_PTX)
        if target == "sm_87":
            yield from count("PTX", kernels)
    for (source, kind), found in counts.items():
        if found != 1:
            yield f"has {found} sm_87 {kind} of {source}, not one"


def main(binary, *own):
    sources = sorted(path.stem for path in pathlib.Path(__file__).parent.parent.glob("kernels/*.cu"))
    wrong = list(faults(pathlib.Path(binary).read_bytes(), sources, own == ("own",)))
    print("\n".join(wrong) if wrong else f"ok: {len(sources)} sm_87 images, each with PTX")


main(*sys.argv[1:])

"""Writes random blocks of every format, and their values by the package gguf, into a directory."""

import sys
from pathlib import Path

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize

# Where each block holds float16 scales.
SCALES = {
    "Q8_0": [0],
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}
BLOCKS = 2048

directory = Path(sys.argv[1])
random = np.random.default_rng(2)


def write(name, data):
    values = dequantize(data, Type[name])
    assert values.dtype == np.float32
    (directory / f"{name}.blocks").write_bytes(data.tobytes())
    (directory / f"{name}.values").write_bytes(values.tobytes())


write("F32", random.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32))
every_half = np.arange(1 << 16, dtype=np.uint16)
write("F16", every_half.view(np.float16))
write("BF16", every_half.view(np.uint8))
for name, offsets in SCALES.items():
    _, block_bytes = GGML_QUANT_SIZES[Type[name]]
    blocks = random.integers(0, 256, (BLOCKS, block_bytes), dtype=np.uint8)
    for offset in offsets:
        # An exponent of all ones would be infinite or no number.
        high = blocks[:, offset + 1]
        blocks[:, offset + 1] = np.where(high & 0x7C == 0x7C, high ^ 0x04, high)
    write(name, blocks.reshape(-1))

"""Writes random blocks and their values by the package gguf: a file per format, with ggml's name of it.

usage: dequantize.py DIRECTORY VALUES FORMAT...
"""

import sys
from pathlib import Path

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize

EVERY_HALF = 1 << 16
EVERY_BYTE = 1 << 8


def stored(name, values):
    """Returns random blocks of at least that many values."""
    random = np.random.default_rng(2)
    length, size = GGML_QUANT_SIZES[Type[name]]
    if length > 1:
        blocks = random.integers(0, 256, (values // length, size), dtype=np.uint8)
        # A scale with an exponent of all ones gives infinity or NaN.
        finite = np.isfinite(dequantize(blocks, Type[name])).all(axis=1)
        while not finite.all():
            blocks[~finite] = random.integers(0, 256, (np.count_nonzero(~finite), size), dtype=np.uint8)
            finite = np.isfinite(dequantize(blocks, Type[name])).all(axis=1)
        if len(blocks) > EVERY_BYTE:
            # Blocks of one byte each: zeros, the greatest integers and scales, subnormal scales, NaN.
            blocks[:EVERY_BYTE] = np.arange(EVERY_BYTE, dtype=np.uint8)[:, None]
        return blocks.reshape(-1)
    if name == "F32":
        return random.integers(0, 1 << 32, values, dtype=np.uint32).view(np.float32)
    halves = np.resize(np.arange(EVERY_HALF, dtype=np.uint16), values)
    if values < EVERY_HALF:
        halves = random.integers(0, EVERY_HALF, values, dtype=np.uint16)
    return halves.view(np.float16 if name == "F16" else np.uint8)


directory, values = Path(sys.argv[1]), int(sys.argv[2])
for name in sys.argv[3:]:
    with np.errstate(all="ignore"):
        data = stored(name, values)
        reference = dequantize(data, Type[name])
    assert reference.dtype == np.float32
    (directory / name).write_bytes(data.tobytes() + reference.tobytes())

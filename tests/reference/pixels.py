#!/usr/bin/env python3
"""Writes the references of images: pixels.py VISION FOLDER.

VISION has transformers' results for small models that take images, a folder each. FOLDER gets what the tests of pixels need of
them, and small files of each format with their pixels as Pillow decodes them. Needs numpy, Pillow, safetensors and tokenizers.
"""

import hashlib
import json
import struct
import sys
import zlib
from pathlib import Path

import numpy
from PIL import Image, ImageDraw
from safetensors.numpy import load_file
from tokenizers import Tokenizer

# The models, and whether the case `large` is compared by its pixels, rather than by its tokens alone.
MODELS = {"qwen3_vl": False, "gemma3": False, "gemma4": False, "smolvlm": False, "lfm2_vl": True}
CONFIGS = ("config.json", "preprocessor_config.json", "processor_config.json")


def expanded(ids: list[int], positions: list[int], tokenizer: Tokenizer) -> str:
    """Returns the prompt as text, with the number of rows in place of each sequence of placeholders."""
    parts, text, rows = [], [], 0
    for position, token in enumerate([*ids, None]):
        if position in positions:
            if text:
                parts.append(tokenizer.decode(text, skip_special_tokens=False))
            text, rows = [], rows + 1
            continue
        if rows:
            parts.append(f"[{rows}]")
        rows = 0
        text.append(token)
    return "".join([*parts, tokenizer.decode(text[:-1], skip_special_tokens=False)])


def model(source: Path, to: Path, has_large: bool) -> None:
    (to / "images").mkdir(parents=True, exist_ok=True)
    for name in CONFIGS:
        if (source / name).exists():
            (to / name).write_bytes((source / name).read_bytes())
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tensors = load_file(source / "tensors.safetensors")
    cases = []
    for case in json.loads((source / "golden.json").read_text())["cases"]:
        if not case["images"]:
            continue
        name = case["name"]
        has_pixels = name != "large" or has_large
        for image in case["images"] if has_pixels else []:
            (to / image).write_bytes((source / image).read_bytes())
        pixels = tensors.get(f"{name}.pixel_values")
        cases.append({
            "name": name,
            "text": case["text"],
            "expanded": expanded(case["input_ids"], set(case["image_token_positions"]), tokenizer),
            "sizes": case["image_sizes_wh"],
            "images": case["images"] if has_pixels else [],
            "pixel_values": case["pixel_values"],
            "sha256": None if pixels is None else hashlib.sha256(pixels.astype("<f4").tobytes()).hexdigest(),
            "grid_thw": case["processor"].get("image_grid_thw"),
            "spatial_shapes": case["processor"].get("spatial_shapes"),
        })
    (to / "expected.json").write_text(json.dumps({"cases": cases}, indent=1) + "\n")


def drawing(width: int, height: int) -> Image.Image:
    y, x = numpy.mgrid[0:height, 0:width]
    channels = [x * 255 / width, y * 255 / height, 128 + 100 * numpy.sin(x / 5) * numpy.cos(y / 4)]
    image = Image.fromarray(numpy.stack(channels, -1).astype(numpy.uint8))
    ImageDraw.Draw(image).ellipse((4, 4, width // 2, height // 2), fill=(230, 40, 20))
    return image


def interlaced(image: Image.Image) -> bytes:
    """Returns a PNG file of seven passes, which Pillow does not write."""
    pixels = numpy.asarray(image)
    rows = b""
    for column, row, across, down in (
        (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2),
    ):
        for line in pixels[row::down, column::across]:
            rows += b"\0" + line.tobytes() if line.size else b""
    header = struct.pack(">IIBBBBB", *image.size, 8, 2, 0, 0, 1)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    file = b"\x89PNG\r\n\x1a\n"
    for name, content in chunks:
        file += struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    return file


def files(to: Path) -> None:
    """Writes files of each format, and their opaque pixels as `FILE.png`."""
    to.mkdir(parents=True, exist_ok=True)
    image = drawing(37, 26)
    alpha = image.copy()
    alpha.putalpha(Image.fromarray(numpy.asarray(image)[..., 1]))
    other = image.transpose(Image.Transpose.ROTATE_180)
    palette = alpha.convert("P", palette=Image.Palette.ADAPTIVE, colors=16)
    palette.info["transparency"] = 3
    quality = {"quality": 90}
    made = {
        "444.jpg": (image, {**quality, "subsampling": 0}),
        "422.jpg": (image, {**quality, "subsampling": 1}),
        "420.jpg": (image, {**quality, "subsampling": 2}),
        "grey.jpg": (image.convert("L"), quality),
        "cmyk.jpg": (image.convert("CMYK"), quality),
        "restarts.jpg": (image, {**quality, "restart_marker_blocks": 2}),
        "progressive.jpg": (image, {**quality, "progressive": True}),
        "lossy.webp": (image, quality),
        "lossy_alpha.webp": (alpha, quality),
        "lossless.webp": (image, {"lossless": True}),
        "lossless_alpha.webp": (alpha, {"lossless": True, "exact": True}),
        "rgba.png": (alpha, {}),
        "grey_alpha.png": (alpha.convert("LA"), {}),
        "palette.png": (palette, {"transparency": 3}),
        "one_bit.png": (image.convert("1"), {}),
        "deep.png": (Image.fromarray(numpy.asarray(image.convert("L")).astype(numpy.uint16) * 257), {}),
        "animated.webp": (image, {"save_all": True, "append_images": [other], "duration": 100}),
        "animated.png": (image, {"save_all": True, "append_images": [other], "duration": 100}),
    }
    for name, (one, options) in made.items():
        one.save(to / name, **options)
    (to / "interlaced.png").write_bytes(interlaced(image))
    for name in [*made, "interlaced.png"]:
        if name.startswith("animated"):
            continue
        decoded = Image.open(to / name)
        if decoded.mode.startswith("I;16"):
            decoded = Image.fromarray((numpy.asarray(decoded) >> 8).astype(numpy.uint8))
        if decoded.has_transparency_data:
            decoded = decoded.convert("RGBA")
            decoded = Image.alpha_composite(Image.new("RGBA", decoded.size, (255,) * 4), decoded)
        decoded.convert("RGB").save(to / f"{name}.pixels.png", optimize=True)


def main(vision: Path, folder: Path) -> None:
    for name, has_large in MODELS.items():
        model(vision / f"tiny-{name}", folder / name, has_large)
    files(folder / "files")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

"""Cuts the reference of a vision tower down to one case: pixels in 8 bits, the first embeddings, and figures of all.

Usage: vision.py FOLDER CASE OUT, where FOLDER is tiny-NAME of the references, next to tiny-NAME.mmproj-f16.gguf and
tiny-NAME.q8_0.gguf.golden.json. It writes OUT/tiny-NAME.json and OUT/tiny-NAME.safetensors, and copies the GGUF file.
"""

import json
import pathlib
import shutil
import struct
import sys

EMBEDDINGS = 16  # of all, in the order of the tower


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def read(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    tensors = json.loads(data[8 : 8 + length])
    tensors.pop("__metadata__", None)
    found = {}
    for name, tensor in tensors.items():
        begin, end = (8 + length + at for at in tensor["data_offsets"])
        count = (end - begin) // 4
        found[name] = (tensor["shape"], struct.unpack_from(f"<{count}f", data, begin))
    return found


def write(path, tensors):
    header, data = {}, b""
    for name, (kind, shape, content) in tensors.items():
        offsets = [len(data), len(data) + len(content)]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": offsets}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def patches(pixels, image, size):
    """Cuts an image (channel, y, x) into patches (channel, y, x)."""
    side = image // size
    for row in range(side):
        for column in range(side):
            for channel in range(3):
                for y in range(size):
                    at = (channel * image + row * size + y) * image + column * size
                    yield from pixels[at : at + size]


def main(folder, name, out):
    config = json.loads((folder / "config.json").read_text())
    golden = json.loads((folder / "golden.json").read_text())
    (case,) = (case for case in golden["cases"] if case["name"] == name)
    tensors = read(folder / "tensors.safetensors")
    shape, pixels = tensors[f"{name}.pixel_values"]
    text, embeds = tensors[f"{name}.image_embeds"]
    size, processor = config["vision_config"]["patch_size"], case["processor"]
    frames, scale, channel = 1, "centered", size * size
    if "image_grid_thw" in processor:
        grids, frames = [processor["image_grid_thw"][0][1:]], 2
        each = 3 * size * size
        kept = []
        for at in range(0, len(pixels), 2 * channel):
            first, second = pixels[at : at + channel], pixels[at + channel : at + 2 * channel]
            assert first == second
            kept += first
        pixels = kept
    elif "image_position_ids" in processor:
        columns = int(processor["image_position_ids"]["max"]) + 1
        grids, scale = [[text[0] * 9 // columns, columns]], "unit"
    else:
        image = config["vision_config"]["image_size"]
        count = len(pixels) // (3 * image * image)
        grids = [[image // size] * 2] * count
        images = (pixels[at * 3 * image * image : (at + 1) * 3 * image * image] for at in range(count))
        pixels = [value for one in images for value in patches(one, image, size)]
    pixels = pixels[: sum(rows * columns for rows, columns in grids) * 3 * size * size]
    if scale == "centered":
        values = [round(x * 127.5 + 127.5) for x in pixels]
        back = [single((x - 127.5) / 127.5) for x in values]
    else:
        values = [round(x * 255) for x in pixels]
        back = [single(x * single(1 / 255)) for x in values]
    assert all(a == b for a, b in zip(pixels, back)), "a pixel is not from 8 bits"
    stem = folder.name
    stated = json.loads((folder.parent / f"{stem}.q8_0.gguf.golden.json").read_text())
    (stated,) = (case for case in stated["cases"] if case["name"] == name)
    figures = {key: stated["image_embeds"][0][key] for key in ("mean", "rms", "min", "max")}
    described = {
        "case": name,
        "grids": grids,
        "frames": frames,
        "channel": channel,
        "scale": scale,
        "statistics": figures,
    }
    (out / f"{stem}.json").write_text(json.dumps(described, indent=1) + "\n")
    rows = min(EMBEDDINGS, text[0])
    kept = embeds[: rows * text[1]]
    write(
        out / f"{stem}.safetensors",
        {
            "pixels": ("U8", [len(values)], bytes(values)),
            "image_embeds": ("F32", [rows, text[1]], struct.pack(f"<{len(kept)}f", *kept)),
        },
    )
    shutil.copyfile(folder.parent / f"{stem}.mmproj-f16.gguf", out / f"{stem}.mmproj-f16.gguf")


main(pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]))

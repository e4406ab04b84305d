"""Writes the file of a vision tower of random weights, at Qwen3-VL-2B's shape: time depends on shapes, not on training.

usage: synthesize_tower.py OUT
"""

import sys

import gguf
import numpy as np

WIDTH, BLOCKS, HEADS, INTERMEDIATE, PATCH, TEXT = 1024, 24, 16, 4096, 16, 2048
# A token is a square of 2 x 2 patches.
SIDE = 2
# Positions have embeddings for 48 x 48 patches.
POSITIONS = 48 * 48
# The blocks whose output the first layers of the language model add, too.
DEEPSTACK = [5, 11, 17]


def main(out):
    writer = gguf.GGUFWriter(out, "clip")
    writer.add_type("mmproj")
    writer.add_name("qwen3vl-2b-random")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "qwen3vl_merger")
    writer.add_bool("clip.use_gelu", True)
    numbers = {
        "projection_dim": TEXT,
        "image_size": 768,
        "patch_size": PATCH,
        "embedding_length": WIDTH,
        "feed_forward_length": INTERMEDIATE,
        "block_count": BLOCKS,
        "attention.head_count": HEADS,
        "spatial_merge_size": SIDE,
    }
    for key, value in numbers.items():
        writer.add_uint32(f"clip.vision.{key}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    writer.add_array("clip.vision.image_mean", [0.5] * 3)
    writer.add_array("clip.vision.image_std", [0.5] * 3)
    writer.add_array("clip.vision.is_deepstack_layers", [block in DEEPSTACK for block in range(BLOCKS)])
    random = np.random.default_rng(0)
    made = {}

    def matrix(name, *shape, kind=np.float16):
        key = *shape, kind
        if key not in made:
            values = random.standard_normal(shape, dtype=np.float32)
            made[key] = (values / np.sqrt(np.prod(shape[1:]))).astype(kind)
        writer.add_tensor(name, made[key])

    def linear(name, rows, columns):
        matrix(f"{name}.weight", rows, columns)
        writer.add_tensor(f"{name}.bias", np.zeros(rows, dtype=np.float32))

    def norm(name, width):
        writer.add_tensor(f"{name}.weight", np.ones(width, dtype=np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(width, dtype=np.float32))

    # A video has two frames for a patch, and an image is twice the same frame.
    matrix("v.patch_embd.weight", WIDTH, 3, PATCH, PATCH)
    matrix("v.patch_embd.weight.1", WIDTH, 3, PATCH, PATCH)
    writer.add_tensor("v.patch_embd.bias", np.zeros(WIDTH, dtype=np.float32))
    matrix("v.position_embd.weight", POSITIONS, WIDTH, kind=np.float32)
    for block in range(BLOCKS):
        name = f"v.blk.{block}."
        norm(name + "ln1", WIDTH)
        linear(name + "attn_qkv", 3 * WIDTH, WIDTH)
        linear(name + "attn_out", WIDTH, WIDTH)
        norm(name + "ln2", WIDTH)
        linear(name + "ffn_up", INTERMEDIATE, WIDTH)
        linear(name + "ffn_down", WIDTH, INTERMEDIATE)
    norm("v.post_ln", WIDTH)
    merged = SIDE * SIDE * WIDTH
    for block in DEEPSTACK:
        name = f"v.deepstack.{block}."
        norm(name + "norm", merged)
        linear(name + "fc1", merged, merged)
        linear(name + "fc2", TEXT, merged)
    linear("mm.0", merged, merged)
    linear("mm.2", TEXT, merged)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(sys.argv[1])

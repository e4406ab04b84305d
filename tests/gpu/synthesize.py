"""Writes a GGUF of random weights at a published shape of Qwen3: time depends on shapes, not on training.

usage: synthesize.py SIZE TYPE OUT    SIZE: 0.6b 1.7b 4b 8b    TYPE: bf16 q8_0 q4_0 q4_1
"""

import sys

import gguf
import numpy as np

VOCABULARY = 151936
HEAD_DIM = 128
KV_HEADS = 8
# hidden, layers, heads, intermediate, tied head (each model's config.json)
SHAPES = {
    "0.6b": (1024, 28, 16, 3072, True),
    "1.7b": (2048, 28, 16, 6144, True),
    "4b": (2560, 36, 32, 9728, True),
    "8b": (4096, 36, 32, 12288, False),
}


def main(size, type_name, out):
    hidden, layers, heads, intermediate, tied = SHAPES[size]
    kind = gguf.GGMLQuantizationType[type_name.upper()]
    writer = gguf.GGUFWriter(out, "qwen3")
    writer.add_name(f"qwen3-{size}-random")
    writer.add_block_count(layers)
    writer.add_context_length(40960)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(intermediate)
    writer.add_head_count(heads)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    random = np.random.default_rng(0)
    made = {}

    def matrix(name, rows, columns):
        # One of each shape serves all layers, and its first rows all others: making them takes longer than
        # timing them.
        if (rows, columns) not in made:
            values = random.standard_normal((min(rows, 4096), columns), dtype=np.float32)
            block = gguf.quants.quantize(values / np.float32(np.sqrt(columns)), kind)
            made[rows, columns] = np.resize(block, (rows, block.shape[1]))
        writer.add_tensor(name, made[rows, columns], raw_dtype=kind)

    def vector(name, width):
        writer.add_tensor(name, np.ones(width, dtype=np.float32))

    matrix("token_embd.weight", VOCABULARY, hidden)
    vector("output_norm.weight", hidden)
    if not tied:
        matrix("output.weight", VOCABULARY, hidden)
    for layer in range(layers):
        block = f"blk.{layer}."
        vector(block + "attn_norm.weight", hidden)
        vector(block + "ffn_norm.weight", hidden)
        vector(block + "attn_q_norm.weight", HEAD_DIM)
        vector(block + "attn_k_norm.weight", HEAD_DIM)
        matrix(block + "attn_q.weight", heads * HEAD_DIM, hidden)
        matrix(block + "attn_k.weight", KV_HEADS * HEAD_DIM, hidden)
        matrix(block + "attn_v.weight", KV_HEADS * HEAD_DIM, hidden)
        matrix(block + "attn_output.weight", hidden, heads * HEAD_DIM)
        matrix(block + "ffn_gate.weight", intermediate, hidden)
        matrix(block + "ffn_up.weight", intermediate, hidden)
        matrix(block + "ffn_down.weight", hidden, intermediate)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(*sys.argv[1:4])

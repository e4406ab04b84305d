"""Writes a GGUF of random weights at a published shape of Qwen3: time depends on shapes, not on training.

Blocks of quantized types are random bytes with scales that keep products small, so that a file takes seconds.

usage: synthesize.py SIZE TYPE OUT [VOCABULARY.gguf]    SIZE: 0.6b 1.7b 4b 8b
TYPE: f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q5_k q6_k, one whose blocks begin with their only f16 number (iq4_nl, iq4_xs), or
q4_k_m and q5_k_m, which mix two as llama.cpp does
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


# A block: its bytes, the offsets of its f16 numbers, and their values times 1 / sqrt(columns).
BLOCKS = {
    "q8_0": (34, {0: 1 / 74}),
    "q4_0": (18, {0: 1 / 4.6}),
    "q4_1": (20, {0: 1 / 4.6, 2: -7.5 / 4.6}),
    "q5_0": (22, {0: 1 / 9.2}),
    "q5_1": (24, {0: 1 / 9.2, 2: -15.5 / 9.2}),
    "q4_k": (144, {0: 1 / 150, 2: 7.5 / 150}),
    "q5_k": (176, {0: 1 / 300, 2: 15.5 / 300}),
    "q6_k": (210, {208: 1 / 1400}),
}
# The types of most matrices, and of the more important ones.
MIXED = {"q4_k_m": ("q4_k", "q6_k"), "q5_k_m": ("q5_k", "q6_k")}


def kind_of(name):
    return gguf.GGMLQuantizationType[name.upper()]


def scale_at_the_beginning(random, kind):
    """Returns random blocks with scales from BLOCKS, so that the values have a realistic size."""
    _, length = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.frombuffer(random.bytes(4096 * length), dtype=np.uint8).reshape(4096, length).copy()
    blocks[:, :2] = np.frombuffer(np.float16(1).tobytes(), dtype=np.uint8)
    return length, {0: 1 / np.sqrt(np.mean(gguf.quants.dequantize(blocks, kind) ** 2))}


def random_rows(random, name, rows, columns):
    values_of_a_block, _ = gguf.GGML_QUANT_SIZES[kind_of(name)]
    if values_of_a_block == 1:
        values = random.standard_normal((rows, columns), dtype=np.float32)
        return gguf.quants.quantize(values / np.float32(np.sqrt(columns)), kind_of(name))
    length, scales = BLOCKS[name] if name in BLOCKS else scale_at_the_beginning(random, kind_of(name))
    count = rows * columns // values_of_a_block
    blocks = np.frombuffer(random.bytes(count * length), dtype=np.uint8).reshape(count, length).copy()
    for at, scale in scales.items():
        blocks[:, at : at + 2] = np.frombuffer(np.float16(scale / np.sqrt(columns)).tobytes(), dtype=np.uint8)
    return blocks.reshape(rows, -1)


def vocabulary(writer):
    """Returns meaningless words, because llama.cpp opens no model without a vocabulary."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(["t", "0", *(f"t{number}" for number in range(VOCABULARY - 2))])
    writer.add_token_types([gguf.TokenType.NORMAL] * VOCABULARY)
    writer.add_token_merges(["t 0"])
    writer.add_eos_token_id(VOCABULARY - 1)


def vocabulary_of(writer, path):
    """Returns another file's vocabulary with a plain template, padded with unused words."""
    unused = {
        "tokenizer.ggml.tokens": lambda at: f"<|unused_{at}|>",
        "tokenizer.ggml.token_type": lambda _: int(gguf.TokenType.UNUSED),
        "tokenizer.ggml.scores": lambda _: 0.0,
    }
    for field in gguf.GGUFReader(path).fields.values():
        if field.name.startswith("tokenizer.") and field.name != "tokenizer.chat_template":
            values = field.contents()
            if field.types[0] == gguf.GGUFValueType.ARRAY:
                if field.name in unused:
                    values += [unused[field.name](at) for at in range(len(values), VOCABULARY)]
                writer.add_array(field.name, values)
            else:
                writer.add_key_value(field.name, values, field.types[0])
    writer.add_chat_template(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    )


def main(size, type_name, out, words=None):
    hidden, layers, heads, intermediate, tied = SHAPES[size]
    type_name = type_name.lower()
    most, best = MIXED.get(type_name, (type_name, type_name))
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
    vocabulary_of(writer, words) if words else vocabulary(writer)
    random = np.random.default_rng(0)
    made = {}

    def matrix(name, rows, columns, better=False):
        kind = best if better else most
        # One matrix of each shape serves all layers, and its first rows the smaller ones.
        key = kind, rows, columns
        if key not in made:
            block = random_rows(random, kind, min(rows, 4096), columns)
            made[key] = np.resize(block, (rows, block.shape[1]))
        writer.add_tensor(name, made[key], raw_dtype=kind_of(kind))

    def vector(name, width):
        writer.add_tensor(name, np.ones(width, dtype=np.float32))

    matrix("token_embd.weight", VOCABULARY, hidden, better=tied)
    vector("output_norm.weight", hidden)
    if not tied:
        matrix("output.weight", VOCABULARY, hidden, better=True)
    for layer in range(layers):
        block = f"blk.{layer}."
        eighth = layers // 8
        better = layer < eighth or layer >= 7 * eighth or (layer - eighth) % 3 == 2
        vector(block + "attn_norm.weight", hidden)
        vector(block + "ffn_norm.weight", hidden)
        vector(block + "attn_q_norm.weight", HEAD_DIM)
        vector(block + "attn_k_norm.weight", HEAD_DIM)
        matrix(block + "attn_q.weight", heads * HEAD_DIM, hidden)
        matrix(block + "attn_k.weight", KV_HEADS * HEAD_DIM, hidden)
        matrix(block + "attn_v.weight", KV_HEADS * HEAD_DIM, hidden, better)
        matrix(block + "attn_output.weight", hidden, heads * HEAD_DIM)
        matrix(block + "ffn_gate.weight", intermediate, hidden)
        matrix(block + "ffn_up.weight", intermediate, hidden)
        matrix(block + "ffn_down.weight", hidden, intermediate, better)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(*sys.argv[1:5])

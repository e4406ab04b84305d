"""Writes a tiny model with random weights and the vocabulary of another GGUF file, to measure the cost of a large vocabulary.

usage: vocabulary.py VOCABULARY.gguf MODEL.gguf
"""

import sys

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

HIDDEN, HEADS, FORWARD, LAYERS, CONTEXT = 64, 4, 128, 2, 2048
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)

reader = GGUFReader(sys.argv[1])
writer = GGUFWriter(sys.argv[2], "llama")
for field in reader.fields.values():
    if field.name.startswith("tokenizer.") and field.name != "tokenizer.chat_template":
        values = field.contents()
        if field.types[0] == GGUFValueType.ARRAY:
            writer.add_array(field.name, values)
        else:
            writer.add_key_value(field.name, values, field.types[0])
tokens = len(reader.fields["tokenizer.ggml.tokens"].contents())
writer.add_chat_template(TEMPLATE)
writer.add_name(f"tiny, of {tokens} tokens")
writer.add_context_length(CONTEXT)
writer.add_embedding_length(HIDDEN)
writer.add_block_count(LAYERS)
writer.add_feed_forward_length(FORWARD)
writer.add_head_count(HEADS)
writer.add_head_count_kv(HEADS)
writer.add_rope_dimension_count(HIDDEN // HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_vocab_size(tokens)

random = np.random.default_rng(1)


def add(name, *shape):
    ones = np.ones(shape, dtype=np.float32)
    drawn = random.normal(0, 0.05, shape).astype(np.float32)
    writer.add_tensor(f"{name}.weight", ones if name.endswith("norm") else drawn)


add("token_embd", tokens, HIDDEN)
add("output_norm", HIDDEN)
for layer in range(LAYERS):
    for name in ("attn_norm", "ffn_norm"):
        add(f"blk.{layer}.{name}", HIDDEN)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        add(f"blk.{layer}.{name}", HIDDEN, HIDDEN)
    add(f"blk.{layer}.ffn_gate", FORWARD, HIDDEN)
    add(f"blk.{layer}.ffn_up", FORWARD, HIDDEN)
    add(f"blk.{layer}.ffn_down", HIDDEN, FORWARD)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

"""Writes a GGUF of random weights at a published shape: time depends on shapes, not on training.

Blocks of quantized types are random bytes with scales that keep products small, so that a file takes seconds.

usage: synthesize.py SIZE TYPE OUT [VOCABULARY.gguf]    SIZE: 0.6b 1.7b 4b 8b (Qwen3), or another key of SHAPES
TYPE: f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k, one whose blocks begin with their only f16 number (iq4_nl,
iq4_xs, iq3_s, iq3_xxs, iq2_s), or q3_k_m, q4_k_m and q5_k_m, which mix several nearly as llama.cpp does
"""

import dataclasses
import sys

import gguf
import numpy as np



@dataclasses.dataclass
class Shape:
    """A model's dimensions, by its config.json."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    tied: bool = True
    architecture: str = "qwen3"
    kv_heads: int = 8
    head_dim: int = 128
    vocabulary: int = 151936
    context: int = 40960
    theta: float = 1e6
    # Further keys of the file, without the architecture's name.
    keys: dict = dataclasses.field(default_factory=dict)
    # Divisors of the frequencies in tensors, one for each pair of elements that rotate.
    pairs: int = 0
    # The layers with attention; None: all. The others are recurrent.
    attends: list | None = None
    # Of recurrent layers: heads of keys and values, and their width.
    key_heads: int = 0
    value_heads: int = 0
    width: int = 128
    # Of Gemma 4: the size of a head in each sixth layer, which sees all positions; the columns of the additional input of a
    # layer; and the number of last layers that read earlier keys and values.
    wide_head: int = 0
    layer_input: int = 0
    sharing: int = 0
    # Of models that see images: the pairs of a head that rotate by time, row and column.
    sections: list | None = None

    def sees_all(self, layer):
        return layer % 6 == 5


def qwen3_5(hidden, layers, heads, kv_heads, intermediate, value_heads):
    """Qwen3.5: three layers of four have a gated DeltaNet."""
    return Shape(
        hidden,
        layers,
        heads,
        intermediate,
        True,
        "qwen35",
        kv_heads,
        256,
        248320,
        262144,
        1e7,
        {
            "rope.dimension_count": 64,
            "ssm.conv_kernel": 4,
            "ssm.state_size": 128,
            "ssm.group_count": 16,
            "ssm.time_step_rank": value_heads,
            "ssm.inner_size": value_heads * 128,
            "full_attention_interval": 4,
        },
        attends=list(range(3, layers, 4)),
        key_heads=16,
        value_heads=value_heads,
        sections=[11, 11, 10, 0],
    )


GEMMA3 = {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0, "rope.freq_base_swa": 1e4}
SHAPES = {
    "0.6b": Shape(1024, 28, 16, 3072),
    "1.7b": Shape(2048, 28, 16, 6144),
    "4b": Shape(2560, 36, 32, 9728),
    "8b": Shape(4096, 36, 32, 12288, tied=False),
    "qwen3-vl-2b": Shape(
        2048,
        28,
        16,
        6144,
        architecture="qwen3vl",
        context=262144,
        theta=5e6,
        keys={"n_deepstack_layers": 3},
        sections=[24, 20, 20, 0],
    ),
    "gemma3-1b": Shape(1152, 26, 4, 6912, True, "gemma3", 1, 256, 262144, 32768, keys={"attention.sliding_window": 512}),
    "gemma3-4b": Shape(
        2560, 34, 8, 10240, True, "gemma3", 4, 256, 262208, 131072, keys={"attention.sliding_window": 1024} | GEMMA3
    ),
    "gemma4-e4b": Shape(
        2560,
        42,
        8,
        10240,
        True,
        "gemma4",
        2,
        256,
        262144,
        131072,
        keys={
            "attention.sliding_window": 512,
            "attention.shared_kv_layers": 18,
            "embedding_length_per_layer_input": 256,
            "final_logit_softcapping": 30.0,
            "rope.freq_base_swa": 1e4,
            "rope.dimension_count": 512,
            "rope.dimension_count_swa": 256,
            "attention.key_length_swa": 256,
            "attention.value_length_swa": 256,
        },
        wide_head=512,
        layer_input=256,
        sharing=18,
    ),
    "phi4-mini": Shape(
        3072,
        32,
        24,
        8192,
        True,
        "phi3",
        vocabulary=200064,
        context=131072,
        theta=1e4,
        keys={"rope.dimension_count": 96, "rope.scaling.original_context_length": 4096, "rope.scaling.attn_factor": 1.19},
        pairs=48,
    ),
    "qwen3.5-0.8b": qwen3_5(1024, 24, 8, 2, 3584, 16),
    "qwen3.5-4b": qwen3_5(2560, 32, 16, 4, 9216, 32),
    "lfm2-1.2b": Shape(
        2048,
        16,
        32,
        8192,
        True,
        "lfm2",
        8,
        64,
        65536,
        128000,
        1e6,
        {"shortconv.l_cache": 3},
        attends=[2, 5, 8, 10, 12, 14],
    ),
    "granite-2b": Shape(
        2048,
        40,
        32,
        8192,
        True,
        "granite",
        8,
        64,
        49159,
        131072,
        1e7,
        {"embedding_scale": 12.0, "attention.scale": 0.015625, "residual_scale": 0.22, "logit_scale": 8.0},
    ),
}


# A block: its bytes, the offsets of its f16 numbers, and their values times 1 / sqrt(columns).
BLOCKS = {
    "q8_0": (34, {0: 1 / 74}),
    "q4_0": (18, {0: 1 / 4.6}),
    "q4_1": (20, {0: 1 / 4.6, 2: -7.5 / 4.6}),
    "q5_0": (22, {0: 1 / 9.2}),
    "q5_1": (24, {0: 1 / 9.2, 2: -15.5 / 9.2}),
    "q2_k": (84, {80: 1 / 13.9, 82: 1.5 / 13.9}),
    "q3_k": (110, {108: 1 / 43.3}),
    "q4_k": (144, {0: 1 / 150, 2: 7.5 / 150}),
    "q5_k": (176, {0: 1 / 300, 2: 15.5 / 300}),
    "q6_k": (210, {208: 1 / 1400}),
}
# The types of most matrices, of the more important ones, and of the embeddings.
MIXED = {
    "q3_k_m": ("q3_k", "q4_k", "q6_k"),
    "q4_k_m": ("q4_k", "q6_k", "q6_k"),
    "q5_k_m": ("q5_k", "q6_k", "q6_k"),
}
# The mixes whose important matrices have the better type in all layers, attn_output included.
IN_ALL_LAYERS = {"q3_k_m"}


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


# The marks of conversations and images, which are the last tokens.
MARKS = ["<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = """{% for m in messages %}<|im_start|>{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}
{%- if part.type == "image" %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}{% endfor %}
{%- endif %}<|im_end|>{% endfor %}<|im_start|>"""


def vocabulary(writer, size, marks=()):
    """Writes meaningless words, because llama.cpp opens no model without a vocabulary."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    words = size - len(marks)
    writer.add_token_list(["t", "0", *(f"t{number}" for number in range(words - 2)), *marks])
    writer.add_token_types([gguf.TokenType.NORMAL] * words + [gguf.TokenType.CONTROL] * len(marks))
    writer.add_token_merges(["t 0"])
    writer.add_eos_token_id(size - 1)
    if marks:
        writer.add_chat_template(TEMPLATE)


def vocabulary_of(writer, path, size):
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
                    values += [unused[field.name](at) for at in range(len(values), size)]
                writer.add_array(field.name, values)
            else:
                writer.add_key_value(field.name, values, field.types[0])
    writer.add_chat_template(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    )


def add_key(writer, key, value):
    add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
    add(key, value)


def main(size, type_name, out, words=None):
    shape = SHAPES[size]
    hidden, heads, kv_heads, head_dim = shape.hidden, shape.heads, shape.kv_heads, shape.head_dim
    type_name = type_name.lower()
    most, best, embedding = MIXED.get(type_name, [type_name] * 3)
    in_all = type_name in IN_ALL_LAYERS
    writer = gguf.GGUFWriter(out, shape.architecture)
    writer.add_name(f"{shape.architecture}-{size}-random")
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(shape.intermediate)
    writer.add_head_count(heads)
    # LFM2's file names the layers without attention by 0 heads.
    lists = shape.architecture == "lfm2"
    of_layers = [kv_heads if layer in shape.attends else 0 for layer in range(shape.layers)] if lists else kv_heads
    writer.add_head_count_kv(of_layers)
    writer.add_key_length(shape.wide_head or head_dim)
    writer.add_value_length(shape.wide_head or head_dim)
    writer.add_rope_freq_base(shape.theta)
    writer.add_layer_norm_rms_eps(1e-6)
    for key, value in shape.keys.items():
        add_key(writer, f"{shape.architecture}.{key}", value)
    if shape.sections:
        writer.add_array(f"{shape.architecture}.rope.dimension_sections", shape.sections)
    if shape.layer_input:
        writer.add_array("gemma4.attention.sliding_window_pattern", [not shape.sees_all(layer) for layer in range(shape.layers)])
    # Granite's and LFM2's vocabularies are smaller than that of other files.
    fits = words and shape.vocabulary >= SHAPES["4b"].vocabulary
    marks = MARKS if shape.architecture == "qwen3vl" else ()
    vocabulary_of(writer, words, shape.vocabulary) if fits else vocabulary(writer, shape.vocabulary, marks)
    random = np.random.default_rng(0)
    made = {}

    def matrix(name, rows, columns, better=False, kind=None):
        kind = kind or (best if better else most)
        # One matrix of each shape serves all layers, and its first rows the smaller ones.
        key = kind, rows, columns
        if key not in made:
            block = random_rows(random, kind, min(rows, 4096), columns)
            made[key] = np.resize(block, (rows, block.shape[1]))
        writer.add_tensor(name, made[key], raw_dtype=kind_of(kind))

    def vector(name, width):
        writer.add_tensor(name, np.ones(width, dtype=np.float32))

    matrix("token_embd.weight", shape.vocabulary, hidden, kind=embedding if shape.tied else most)
    vector("token_embd_norm.weight" if lists else "output_norm.weight", hidden)
    if not shape.tied:
        matrix("output.weight", shape.vocabulary, hidden, kind=embedding)
    if shape.pairs:
        vector("rope_factors_short.weight", shape.pairs)
        vector("rope_factors_long.weight", shape.pairs)
    if shape.layer_input:
        inputs = shape.layer_input * shape.layers
        matrix("per_layer_token_embd.weight", shape.vocabulary, inputs)
        matrix("per_layer_model_proj.weight", inputs, hidden)
        vector("per_layer_proj_norm.weight", shape.layer_input)
        # A quarter of the pairs of a wide head rotate: a frequency divided by 1e30 is 0.
        still = np.where(np.arange(shape.wide_head // 2) < shape.wide_head // 8, 1, 1e30)
        writer.add_tensor("rope_freqs.weight", still.astype(np.float32))
    joined = shape.architecture == "phi3"
    norms = ["attn_norm", "ffn_norm"]
    if shape.architecture in ("gemma3", "gemma4"):
        norms += ["post_attention_norm", "post_ffw_norm"]
    if shape.architecture == "qwen35":
        norms = ["attn_norm", "post_attention_norm"]
    if shape.layer_input:
        norms += ["post_norm"]
    for layer in range(shape.layers):
        width = shape.wide_head if shape.wide_head and shape.sees_all(layer) else head_dim
        q, kv = heads * width, kv_heads * width
        stores = layer < shape.layers - shape.sharing
        block = f"blk.{layer}."
        eighth = shape.layers // 8
        better = in_all or layer < eighth or layer >= 7 * eighth or (layer - eighth) % 3 == 2
        for norm in norms:
            vector(f"{block}{norm}.weight", hidden)
        attends = shape.attends is None or layer in shape.attends
        if shape.layer_input:
            matrix(block + "inp_gate.weight", shape.layer_input, hidden)
            matrix(block + "proj.weight", hidden, shape.layer_input)
            vector(block + "layer_output_scale.weight", 1)
        if attends and shape.architecture in ("qwen3", "qwen3vl", "gemma3", "gemma4", "qwen35", "lfm2"):
            vector(block + "attn_q_norm.weight", width)
            if stores:
                vector(block + "attn_k_norm.weight", width)
        if not attends and shape.key_heads:
            keys, values = shape.key_heads * shape.width, shape.value_heads * shape.width
            matrix(block + "attn_qkv.weight", 2 * keys + values, hidden)
            matrix(block + "attn_gate.weight", values, hidden)
            matrix(block + "ssm_alpha.weight", shape.value_heads, hidden)
            matrix(block + "ssm_beta.weight", shape.value_heads, hidden)
            matrix(block + "ssm_out.weight", hidden, values)
            writer.add_tensor(block + "ssm_conv1d.weight", np.full((2 * keys + values, 4), 0.5, dtype=np.float32))
            # A state forgets half of it in about ten tokens.
            writer.add_tensor(block + "ssm_a", np.full(shape.value_heads, -0.1, dtype=np.float32))
            vector(block + "ssm_dt.bias", shape.value_heads)
            vector(block + "ssm_norm.weight", shape.width)
        elif not attends:
            matrix(block + "shortconv.in_proj.weight", 3 * hidden, hidden)
            matrix(block + "shortconv.out_proj.weight", hidden, hidden)
            writer.add_tensor(block + "shortconv.conv.weight", np.full((hidden, 3), 0.5, dtype=np.float32))
        if joined:
            matrix(block + "attn_qkv.weight", q + 2 * kv, hidden)
            matrix(block + "ffn_up.weight", 2 * shape.intermediate, hidden)
        else:
            if attends:
                # A query's gate is as wide as the query.
                matrix(block + "attn_q.weight", 2 * q if shape.architecture == "qwen35" else q, hidden)
                if stores:
                    matrix(block + "attn_k.weight", kv, hidden)
                    matrix(block + "attn_v.weight", kv, hidden, better)
            matrix(block + "ffn_gate.weight", shape.intermediate, hidden)
            matrix(block + "ffn_up.weight", shape.intermediate, hidden)
        if attends:
            matrix(block + "attn_output.weight", hidden, q, in_all)
        matrix(block + "ffn_down.weight", hidden, shape.intermediate, better)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


main(*sys.argv[1:5])

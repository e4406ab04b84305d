"""A model of one layer whose next token depends on its last one alone, as a directory or as a GGUF file.

Its answers are known in advance, so a case can say what a right answer is. Attention and the MLP are zero; the head maps the
embedding of a token to the token that `next` names. Nothing here trains or samples.
"""
import json
import struct
from pathlib import Path

import gguf
import numpy

HERE = Path(__file__).parent
WORDS = json.loads((HERE / "words.json").read_text("utf-8"))
WIDTH = 64
CONTROL = ("<|begin|>", "<|end|>", "<|user|>", "<|bot|>")
TEMPLATE = "{% for m in messages %}<|user|>{{ m.content }}{% endfor %}<|bot|>"
# The answer: the token after the prompt's last one, and so on to the end of the turn.
NEXT = {"<|bot|>": "a", "a": "b", "b": "<|end|>"}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": WIDTH,
    "intermediate_size": WIDTH,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}


def weights(tokens: list[str], following: dict[str, str | list[str]]) -> dict[str, numpy.ndarray]:
    """Tensors in f16, [rows, columns]; names are those of a directory. Tokens of a list are equally probable."""
    embeddings = numpy.random.default_rng(1).choice((-0.25, 0.25), (len(tokens), WIDTH))
    head = numpy.zeros((len(tokens), WIDTH))
    for token, all_after in (NEXT | following).items():
        for after in [all_after] if isinstance(all_after, str) else all_after:
            if token in tokens:
                head[tokens.index(after)] += embeddings[tokens.index(token)] * 4
    square, narrow, ones = numpy.zeros((WIDTH, WIDTH)), numpy.zeros((WIDTH // 2, WIDTH)), numpy.ones(WIDTH)
    layer = {
        "input_layernorm": ones,
        "self_attn.q_proj": square,
        "self_attn.k_proj": narrow,
        "self_attn.v_proj": narrow,
        "self_attn.o_proj": square,
        "post_attention_layernorm": ones,
        "mlp.gate_proj": square,
        "mlp.up_proj": square,
        "mlp.down_proj": square,
    }
    tensors = {"model.embed_tokens.weight": embeddings, "model.norm.weight": ones, "lm_head.weight": head}
    tensors |= {f"model.layers.0.{name}.weight": value for name, value in layer.items()}
    return {name: value.astype(numpy.float16) for name, value in tensors.items()}


def directory(folder: Path, spec: dict) -> Path:
    """Writes a directory in the form of transformers. A member of `spec` changes one of its files."""
    folder.mkdir(parents=True)
    added = {token: {"id": index, "content": token} for index, token in enumerate(CONTROL)}
    added |= {token["content"]: token for token in spec.get("added_tokens", ())}
    words = spec.get("words", WORDS)
    tokens = words["tokens"] + [token for token in added if token not in words["tokens"]]
    config = CONFIG | {"vocab_size": len(tokens)} | spec.get("config", {})
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} | token
            for token in added.values()
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {token: index for index, token in enumerate(words["tokens"])},
            "merges": words["merges"],
        },
    } | spec.get("tokenizer", {})
    described = {"bos_token": "<|begin|>", "eos_token": "<|end|>", "chat_template": TEMPLATE}
    files = {
        "config.json": json.dumps({key: value for key, value in config.items() if value is not None}),
        "tokenizer.json": json.dumps(tokenizer),
        "tokenizer_config.json": json.dumps(spec.get("tokenizer_config", described)),
    } | spec.get("files", {})
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8", newline="")
    save(folder / "model.safetensors", weights(tokens, spec.get("next", {})))
    return folder


def save(path: Path, tensors: dict[str, numpy.ndarray]) -> None:
    """Writes safetensors."""
    header, offset = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F16", "shape": tensor.shape, "data_offsets": (offset, offset + tensor.nbytes)}
        offset += tensor.nbytes
    described = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(described)) + described)
        for tensor in tensors.values():
            file.write(tensor.tobytes())


def gguf_file(path: Path, spec: dict) -> Path:
    """Writes a GGUF file. `spec` has tokens to add, keys to set ([type, value]) and keys to remove."""
    tokens, kinds = list(WORDS["tokens"]), [3 if token in CONTROL else 1 for token in WORDS["tokens"]]
    for token, kind in spec.get("tokens", ()):
        tokens.append(token)
        kinds.append({"normal": 1, "control": 3, "user-defined": 4}[kind])
    values = {
        "general.name": ("string", "tiny"),
        "llama.block_count": ("uint32", 1),
        "llama.context_length": ("uint32", 4096),
        "llama.embedding_length": ("uint32", WIDTH),
        "llama.feed_forward_length": ("uint32", WIDTH),
        "llama.attention.head_count": ("uint32", 2),
        "llama.attention.head_count_kv": ("uint32", 1),
        "llama.attention.layer_norm_rms_epsilon": ("float32", 1e-05),
        "llama.rope.freq_base": ("float32", 10000.0),
        "tokenizer.ggml.model": ("string", "gpt2"),
        "tokenizer.ggml.pre": ("string", "gpt-2"),
        "tokenizer.ggml.tokens": ("strings", tokens),
        "tokenizer.ggml.token_type": ("int32s", kinds),
        "tokenizer.ggml.merges": ("strings", WORDS["merges"]),
        "tokenizer.ggml.bos_token_id": ("uint32", 0),
        "tokenizer.ggml.eos_token_id": ("uint32", 1),
    }
    if (template := spec.get("template", TEMPLATE)) is not None:
        values["tokenizer.chat_template"] = ("string", template)
    values |= spec.get("set", {})
    writer = gguf.GGUFWriter(path, "llama")
    for key, (kind, value) in values.items():
        if key not in spec.get("remove", ()):
            add(writer, key, kind, value)
    names = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    for name, tensor in weights(tokens, spec.get("next", {})).items():
        short = names[name.removesuffix(".weight").removeprefix("model.layers.0.")]
        prefix = "blk.0." if "layers" in name else ""
        writer.add_tensor(f"{prefix}{short}.weight", tensor.astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add(writer: gguf.GGUFWriter, key: str, kind: str, value) -> None:
    """Adds a value of a case's type."""
    kinds = gguf.GGUFValueType
    match kind:
        case "latin1":
            writer.add_key_value(key, value.encode("latin-1"), kinds.STRING)
        case "strings":
            writer.add_array(key, value)
        case "int32s":
            writer.add_key_value(key, value, kinds.ARRAY, sub_type=kinds.INT32)
        case "uint32s":
            writer.add_key_value(key, value, kinds.ARRAY, sub_type=kinds.UINT32)
        case "float32s":
            writer.add_key_value(key, value, kinds.ARRAY, sub_type=kinds.FLOAT32)
        case _:
            writer.add_key_value(key, value, kinds[kind.upper()])

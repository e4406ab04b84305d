"""Writes the golden model tiny-qwen3_5 with a head of random weights that guesses tokens.

usage: add_head.py GOLDEN OUT [own]    GOLDEN: the folder tiny-qwen3_5; own: the head has an embedding of its own
"""

import json
import pathlib
import sys

import numpy as np

HIDDEN, VOCABULARY, QUERY, KV, HEAD, WIDTH = 64, 512, 128, 64, 32, 128


def read(path):
    """Returns the tensors of a safetensors file in f32."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    body = data[8 + size :]
    tensors = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32", entry
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(body[begin:end], "<f4").reshape(entry["shape"])
    return tensors


def write(path, tensors):
    header, body = {}, b""
    for name, values in tensors.items():
        values = values.astype("<f4").tobytes()
        shape = list(tensors[name].shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(values)]}
        body += values
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def main(golden, out, own=None):
    golden, out = pathlib.Path(golden), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    config = json.loads((golden / "config.json").read_text())
    config.update(tie_word_embeddings=False, mtp_num_hidden_layers=1)
    (out / "config.json").write_text(json.dumps(config))
    tensors = read(golden / "model.safetensors")
    random = np.random.default_rng(41)

    def add(name, spread, *shape):
        tensors[name] = (spread * (2 * random.random(shape) - 1)).astype("<f4")

    add("lm_head.weight", 0.3, VOCABULARY, HIDDEN)
    for norm in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        add(f"mtp.{norm}.weight", 0.5, HIDDEN)
    add("mtp.fc.weight", 0.2, HIDDEN, 2 * HIDDEN)
    layer = "mtp.layers.0"
    for norm in ("input_layernorm", "post_attention_layernorm"):
        add(f"{layer}.{norm}.weight", 0.5, HIDDEN)
    for norm in ("q_norm", "k_norm"):
        add(f"{layer}.self_attn.{norm}.weight", 0.5, HEAD)
    add(f"{layer}.self_attn.q_proj.weight", 0.3, 2 * QUERY, HIDDEN)
    add(f"{layer}.self_attn.k_proj.weight", 0.3, KV, HIDDEN)
    add(f"{layer}.self_attn.v_proj.weight", 0.3, KV, HIDDEN)
    add(f"{layer}.self_attn.o_proj.weight", 0.3, HIDDEN, QUERY)
    add(f"{layer}.mlp.gate_proj.weight", 0.3, WIDTH, HIDDEN)
    add(f"{layer}.mlp.up_proj.weight", 0.3, WIDTH, HIDDEN)
    add(f"{layer}.mlp.down_proj.weight", 0.3, HIDDEN, WIDTH)
    if own:
        add("mtp.embed_tokens.weight", 1.0, VOCABULARY, HIDDEN)
    write(out / "model.safetensors", tensors)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["own"]):
        sys.exit(__doc__)
    main(*sys.argv[1:])

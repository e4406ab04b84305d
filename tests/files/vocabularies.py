"""Public vocabularies: texts have the same tokens as in the reference program.

Each vocabulary is put into a model of one layer. A vocabulary of a folder is compared with the Python package tokenizers. One of
llama.cpp is compared with the ids that come with it, with llama.cpp's ids in data/llama_cpp.json, and with tokenizers under the regular
expressions of its pre-tokenizer. All texts of a vocabulary go through one call, with a token between them that is added for this and is in
none of them.
"""
import json
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer

from model import CONFIG, WIDTH
from outcome import Outcome

HERE = Path(__file__).parent
VOCABULARIES = HERE.parents[1] / "target/vocabularies"
LLAMA_CPP = HERE.parents[1] / "target/templates"
TEXTS = json.loads((HERE / "texts.json").read_text("utf-8"))
BETWEEN = "⁂⁂"
# llama.cpp's ids of the texts: tests/reference/sentencepiece.py writes them.
IDS = json.loads((HERE / "data/llama_cpp.json").read_text("utf-8"))
# The separator in llama.cpp's files of texts and ids.
TEST = "\n__ggml_vocab_test__\n"

sys.path.insert(0, str(HERE.parent / "reference"))
import splits  # noqa: E402  (tests/reference)


def outcomes(bin_folder: Path) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory() as name:
        for folder in sorted(VOCABULARIES.glob("*")):
            yield of_folder(bin_folder, folder, Path(name, folder.name))
        for file in sorted(LLAMA_CPP.glob("ggml-vocab-*.gguf")):
            yield of_gguf(bin_folder, file, Path(name, file.name))


def of_folder(bin_folder: Path, folder: Path, model: Path) -> Outcome:
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    ids = [*tokenizer["model"]["vocab"].values(), *(token["id"] for token in tokenizer["added_tokens"])]
    between = max(ids) + 1
    # It does not change the tokens of these texts.
    tokenizer["added_tokens"].append(
        {"id": between, "content": BETWEEN, "special": False, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    )
    model.mkdir()
    model.joinpath("tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    model.joinpath("tokenizer_config.json").write_bytes((folder / "tokenizer_config.json").read_bytes())
    config = CONFIG | {"vocab_size": between + 1, "tie_word_embeddings": True}
    model.joinpath("config.json").write_text(json.dumps(config), "utf-8")
    shapes = [(f"{name}.weight", shape) for name, shape in tensors(between + 1, "model.", "layers.0.", FOLDER)]
    header, offset = {}, 0
    for name, shape in shapes:
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": (offset, offset + size)}
        offset += size
    described = json.dumps(header).encode()
    with model.joinpath("model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(described)) + described)
        file.truncate(8 + len(described) + offset)
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    expected = [(text, reference.encode(text, add_special_tokens=False).ids) for text in TEXTS]
    return compared(bin_folder, folder.name, model, between, expected)


def of_gguf(bin_folder: Path, file: Path, model: Path) -> Outcome:
    name = file.stem.removeprefix("ggml-vocab-")
    values = vocabulary(file)
    tokens = values["tokens"]
    write_gguf(model, file, len(tokens))
    expected = []
    inputs = file.with_name(file.name + ".inp")
    if inputs.exists():
        ids = file.with_name(file.name + ".out").read_text().split("\n")
        expected = list(zip(inputs.read_text("utf-8").split(TEST), [[int(one) for one in line.split()] for line in ids]))
    expected += zip(TEXTS, IDS.get(name, []))
    if values["model"] == "gpt2" and (reference := splits.tokenizer(values)):
        expected += [(text, reference.encode(text, add_special_tokens=False).ids) for text in TEXTS]
    return compared(bin_folder, f"{name} (GGUF)", model, len(tokens), expected)


def compared(bin_folder: Path, name: str, model: Path, between: int, expected: list[tuple[str, list[int]]]) -> Outcome:
    texts = BETWEEN.join(text for text, _ in expected)
    command = [bin_folder / "ganglionctl", "tokenize", "--model", model, "--", texts]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        names_it = "supported:" in result.stderr
        return Outcome(name, "refused" if names_it else "wrong", result.stderr.strip())
    found = [[]]
    for one in result.stdout.split():
        if int(one) == between:
            found.append([])
        else:
            found[-1].append(int(one))
    if len(found) != len(expected):
        return Outcome(name, "wrong", f"{len(found)} texts of {len(expected)}")
    wrong = [(text, ids, right) for (text, right), ids in zip(expected, found) if ids != right]
    if wrong:
        text, ids, right = wrong[0]
        return Outcome(name, "wrong", f"{len(wrong)} of {len(expected)} texts, the first is {text!r}: {ids}, expected {right}")
    return Outcome(name, "right", f"{len(expected)} texts")


FOLDER = {
    "embed": "embed_tokens",
    "norm": "norm",
    "attn_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
GGUF = {
    "embed": "token_embd",
    "norm": "output_norm",
    "attn_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "ffn_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}


def tensors(rows: int, model: str, layer: str, names: dict[str, str]) -> list[tuple[str, tuple[int, ...]]]:
    """Returns names and shapes, [rows, columns]."""
    square, narrow = (WIDTH, WIDTH), (WIDTH // 2, WIDTH)
    shapes = {"embed": (rows, WIDTH), "k": narrow, "v": narrow} | dict.fromkeys(("norm", "attn_norm", "ffn_norm"), (WIDTH,))
    prefix = {"embed": model, "norm": model}
    return [(prefix.get(key, model + layer) + name, shapes.get(key, square)) for key, name in names.items()]


def vocabulary(file: Path) -> dict:
    """Returns the values of tokenizer.ggml.* that tokenizers needs."""
    values = {key.removeprefix("tokenizer.ggml."): value for key, _, value in pairs(file.read_bytes())}
    return {
        "model": values["model"],
        "pre": values.get("pre", "default"),
        "tokens": values["tokens"],
        "types": values["token_type"],
        "merges": values.get("merges", []),
    }


def write_gguf(path: Path, vocabulary: Path, count: int) -> None:
    """Writes a model of llama's architecture with a file's tokenizer and one more token."""
    values = [
        string("general.architecture", "llama"),
        *(number(f"llama.{key}", value) for key, value in SHAPE.items()),
        string("general.name", "tiny"),
        key_of("llama.attention.layer_norm_rms_epsilon", 6) + struct.pack("<f", 1e-05),
    ]
    values += [pair for key, pair, _ in pairs(vocabulary.read_bytes()) if key.startswith("tokenizer.ggml.")]
    infos, offset = b"", 0
    shapes = tensors(count + 1, "", "blk.0.", GGUF)
    for name, shape in shapes:
        sizes = shape[::-1]
        infos += encoded(f"{name}.weight") + struct.pack("<I", len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes)
        infos += struct.pack("<IQ", 0, offset)
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        offset += (size + 31) // 32 * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(values)) + b"".join(values) + infos
    with path.open("wb") as file:
        file.write(head)
        file.truncate((len(head) + 31) // 32 * 32 + offset)


SHAPE = {
    "block_count": 1,
    "context_length": 4096,
    "embedding_length": WIDTH,
    "feed_forward_length": WIDTH,
    "attention.head_count": 2,
    "attention.head_count_kv": 1,
}
# The size of a value by its type.
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
FORMATS = {5: "i", 6: "f"}
STRING, ARRAY = 8, 9
# The added token's element of each array.
ADDED = {
    "tokenizer.ggml.tokens": struct.pack("<Q", len(BETWEEN.encode())) + BETWEEN.encode(),
    "tokenizer.ggml.token_type": struct.pack("<i", 4),
    "tokenizer.ggml.scores": struct.pack("<f", 0.0),
}


def pairs(data: bytes) -> Iterator[tuple[str, bytes, object]]:
    """Yields each key of a file, its bytes including the value with one more token in arrays, and the value."""
    (count,) = struct.unpack_from("<Q", data, 16)
    at = 24
    for _ in range(count):
        begin = at
        key, at = text_at(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        at += 4
        if kind == ARRAY:
            element, length = struct.unpack_from("<IQ", data, at)
            head, at = at, at + 12
            values = []
            if element == STRING:
                for _ in range(length):
                    value, at = text_at(data, at)
                    values.append(value)
            else:
                if element in FORMATS:
                    values = list(struct.unpack_from(f"<{length}{FORMATS[element]}", data, at))
                at += length * SIZES[element]
            more = ADDED.get(key)
            size = struct.pack("<IQ", element, length + (more is not None))
            yield key, data[begin:head] + size + data[head + 12 : at] + (more or b""), values
        elif kind == STRING:
            value, at = text_at(data, at)
            yield key, data[begin:at], value
        else:
            at += SIZES[kind]
            yield key, data[begin:at], None


def text_at(data: bytes, at: int) -> tuple[str, int]:
    """Returns the text at an offset, and the offset after it."""
    (length,) = struct.unpack_from("<Q", data, at)
    end = at + 8 + length
    return data[at + 8 : end].decode("utf-8", "replace"), end


def encoded(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def key_of(key: str, kind: int) -> bytes:
    return encoded(key) + struct.pack("<I", kind)


def string(key: str, value: str) -> bytes:
    return key_of(key, STRING) + encoded(value)


def number(key: str, value: int) -> bytes:
    return key_of(key, 4) + struct.pack("<I", value)

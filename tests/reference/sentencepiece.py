"""Writes tests/data/sentencepiece.json: a small vocabulary with scores, and the ids of texts in llama.cpp. Writes
tests/files/data/llama_cpp.json: the ids of tests/files/texts.json in llama.cpp for vocabularies that `make deps-test` fetches.

Run it by hand with the Python packages gguf and llama-cpp-py-sync==0.11739. LIBLLAMA may name another build of llama.cpp's library,
such as that of xllamacpp==2026.10.11549. The vocabulary has equal scores, so that the leftmost pair
matters, tokens that only several joins make, user-defined and control tokens, and bytes.
"""

import json
import os
import random
import struct
import sys
import tempfile
from pathlib import Path

from gguf import GGUFWriter
from llama_cpp_py_sync._cffi_bindings import get_ffi, get_lib

OUT = Path(__file__).parents[1] / "data/sentencepiece.json"
TEXTS = Path(__file__).parents[1] / "files/texts.json"
FILES = Path(__file__).parents[2] / "target/templates"
IDS = TEXTS.with_name("data") / "llama_cpp.json"
NAMES = ("baichuan", "gemma-4", "llama-spm", "phi-3")
NORMAL, UNKNOWN, CONTROL, DEFINED, UNUSED, BYTE = range(1, 7)
PIECES = """▁ ▁▁ ▁▁▁ ▁▁▁▁ a b c d e aa aaa aaaa ab aba abab ba bb ▁a ▁ab ab▁ b▁ c▁a th he the ▁the ▁t ▁th er her here ▁her , . ; ,, ... ..
 .... -- --- - \n \t 1 2 12 21 121 212 é è ée ▁é ж же ▁ж 你 你好 好 " { } {" "} ": ▁" : "▁ e▁ er▁ r t h""".split(" ")
PIECES = [piece for piece in PIECES if piece]
# Scores that several tokens share.
SHARED = {"ab": -3.0, "ba": -3.0, "aa": -3.0, "bb": -3.0, "aba": -4.0, "abab": -4.0, "12": -5.0, "21": -5.0, "▁a": -3.0, "b▁": -3.0}


def vocabulary():
    tokens = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    tokens += [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
    tokens += [(piece, SHARED.get(piece, -6.0 - at / 4), NORMAL) for at, piece in enumerate(PIECES)]
    tokens += [("\n\n", -1000.0, DEFINED), ("  ", -1000.0, DEFINED), ("<b>", -1000.0, DEFINED), ("<|user|>", -1000.0, CONTROL)]
    tokens += [("<|end|>", -1000.0, DEFINED), ("<|endoftext|>", -1000.0, CONTROL), ("▁here", 0.5, UNUSED)]
    return tokens


def texts():
    chosen = random.Random(5)
    pieces = [piece.replace("▁", " ") for piece in PIECES] + list("ababab12ü☃\x01") + ["🤖", "\n\n", "\n\n\n", "  ", "   ", "<b>", "▁", "<0x41>"]
    made = ["", " ", "  ", "a", " a", "the here", "aaaaaaaaaaa", "abababababa", "----- -----", '{"a": "b"}', "x\u00a0y", "\u3000a"]
    for length in (2, 3, 5, 8, 13, 21, 34):
        for _ in range(5):
            made.append("".join(chosen.choices(pieces, k=length)))
    return made


def write(path, tokens, prefix, name):
    writer = GGUFWriter(path, "llama")
    writer.add_name(name)
    for key in ("context_length", "embedding_length", "block_count", "feed_forward_length"):
        getattr(writer, f"add_{key}")(32)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token for token, _, _ in tokens])
    writer.add_token_scores([score for _, score, _ in tokens])
    writer.add_token_types([kind for _, _, kind in tokens])
    writer.add_add_space_prefix(prefix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Reference:
    """llama.cpp with the vocabulary of a file."""

    def __init__(self, path):
        self.ffi = get_ffi()
        path_of_library = os.environ.get("LIBLLAMA")
        self.lib = self.ffi.dlopen(path_of_library) if path_of_library else get_lib()
        quiet = self.ffi.callback("void(int, const char *, void *)", lambda *_: None)
        self.lib.llama_log_set(self.ffi.cast("ggml_log_callback", quiet), self.ffi.NULL)
        self.quiet = quiet
        params = self.lib.llama_model_default_params()
        params.vocab_only = True
        model = self.lib.llama_model_load_from_file(str(path).encode(), params)
        if model == self.ffi.NULL:
            sys.exit(f"{path}: llama.cpp cannot load it")
        self.vocabulary = self.lib.llama_model_get_vocab(model)

    def encode(self, text, special=False):
        data = text.encode()
        ids = self.ffi.new(f"int32_t[{len(data) + 16}]")
        count = self.lib.llama_tokenize(self.vocabulary, data, len(data), ids, len(data) + 16, False, special)
        return list(ids[0:count])

    def decode(self, ids):
        given = self.ffi.new(f"int32_t[{len(ids)}]", ids)
        buffer = self.ffi.new(f"char[{64 * len(ids) + 64}]")
        count = self.lib.llama_detokenize(self.vocabulary, given, len(ids), buffer, 64 * len(ids) + 64, False, False)
        return self.ffi.buffer(buffer, count)[:].decode("utf-8", "replace")


def main():
    tokens = vocabulary()
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for prefix in (True, False):
            path = Path(folder, f"{prefix}.gguf")
            write(path, tokens, prefix, "tiny")
            reference = Reference(path)
            for text in texts():
                ids = reference.encode(text)
                cases.append({"prefix": prefix, "text": text, "ids": ids, "decoded": reference.decode(ids) if ids else ""})
        path = Path(folder, "phi.gguf")
        write(path, tokens, True, "tiny Phi-3")
        prompt = "<s><|user|>\n \u3000a the<|end|>\n<|user|> b</s>\n"
        stripped = {"text": prompt, "ids": Reference(path).encode(prompt, True)}
    written = {
        "tokens": [token for token, _, _ in tokens],
        "scores": [struct.unpack("<f", struct.pack("<f", score))[0] for _, score, _ in tokens],
        "types": [kind for _, _, kind in tokens],
        "cases": cases,
        "stripped": stripped,
    }
    OUT.write_text(json.dumps(written, ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")
    public = {}
    for name in NAMES:
        reference = Reference(FILES / f"ggml-vocab-{name}.gguf")
        public[name] = [reference.encode(text) for text in json.loads(TEXTS.read_text("utf-8"))]
    lines = ",\n".join(f'"{name}":{json.dumps(ids, separators=(",", ":"))}' for name, ids in public.items())
    IDS.write_text(f"{{\n{lines}\n}}\n", "utf-8")


if __name__ == "__main__":
    main()

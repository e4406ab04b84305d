"""Encodes texts with the Python package tokenizers: a job on stdin, ids on stdout (JSON).

A job is {"tokens", "merges", "special", "pre", "texts", "save"}: spellings by id, merges as in GGUF, ids of
control tokens, the pre-tokenizer's name, and where the tokenizer.json goes. "added" has the members of added tokens that match in
the texts.
"""

import json
import sys

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
MARKED = r"\p{Lm}\p{Lo}\p{M}]"
CAPITALS, SMALL = r"[\p{Lu}\p{Lt}" + MARKED, r"[\p{Ll}" + MARKED
BEFORE = r"[^\r\n\p{L}\p{N}]?"

# Regular expressions of the original tokenizer.json files; "default" is llama.cpp's.
SPLITS = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT2],
    "llama-bpe": [WORDS + r"\p{N}{1,3}" + REST],
    "smaug-bpe": [WORDS + r"\p{N}{1,3}" + REST],
    "qwen2": [WORDS + r"\p{N}" + REST],
    "tekken": [
        BEFORE + CAPITALS + "*" + SMALL + "+|" + BEFORE + CAPITALS + "+" + SMALL + r"*|\p{N}"
        + REST.replace(r"[\r\n]*", r"[\r\n/]*")
    ],
}


def pre_tokenizer(name):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name == "smollm")
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    cuts = [pre_tokenizers.Split(Regex(cut), "isolated") for cut in SPLITS[name]]
    return pre_tokenizers.Sequence([*cuts, byte_level])


job = json.load(sys.stdin)
name = job["pre"]
special = set(job["special"])
vocabulary = {token: id for id, token in enumerate(job["tokens"])}
merges = [tuple(merge.split(" ")) for merge in job["merges"]]
tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=name in ("llama-bpe", "tekken")))
tokenizer.pre_tokenizer = pre_tokenizer(name)
if name == "qwen2":
    tokenizer.normalizer = normalizers.NFC()
for added in job.get("added", []):
    tokenizer.add_tokens([AddedToken(**added)])
ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in job["texts"]]
# Added afterwards: our plain text has no special tokens.
tokenizer.add_special_tokens([AddedToken(job["tokens"][id], special=True) for id in sorted(special)])
tokenizer.save(job["save"])
json.dump(ids, sys.stdout)

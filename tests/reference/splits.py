"""The pre-tokenizers of GGUF files in the Python package tokenizers."""

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
MARKED = r"\p{Lm}\p{Lo}\p{M}]"
CAPITALS, SMALL = r"[\p{Lu}\p{Lt}" + MARKED, r"[\p{Ll}" + MARKED
BEFORE = r"[^\r\n\p{L}\p{N}]?"
# Chinese, Japanese and Korean in DeepSeek's first models.
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"

# Regular expressions of the original tokenizer.json files; "default" is llama.cpp's.
SPLITS = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT2],
    "mpt": [GPT2],
    "llama-bpe": [WORDS + r"\p{N}{1,3}" + REST],
    "smaug-bpe": [WORDS + r"\p{N}{1,3}" + REST],
    "qwen2": [WORDS + r"\p{N}" + REST],
    "tekken": [
        BEFORE + CAPITALS + "*" + SMALL + "+|" + BEFORE + CAPITALS + "+" + SMALL + r"*|\p{N}"
        + REST.replace(r"[\r\n]*", r"[\r\n/]*")
    ],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"],
}
DIGITS_FIRST = ("smollm", "starcoder", "refact", "command-r")


def pre_tokenizer(name):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name in DIGITS_FIRST)
    if name in DIGITS_FIRST:
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    cuts = [pre_tokenizers.Split(Regex(cut), "isolated") for cut in SPLITS[name]]
    return pre_tokenizers.Sequence([*cuts, byte_level])


def plain(name, tokens, merges):
    """A tokenizer without added tokens: spellings by id, and merges as in GGUF."""
    vocabulary = {token: id for id, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs, ignore_merges=name in ("llama-bpe", "tekken")))
    tokenizer.pre_tokenizer = pre_tokenizer(name)
    if name == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def tokenizer(values):
    """Returns the tokenizer of a GGUF file with its user-defined tokens, or `None` without a reference for its pre-tokenizer."""
    if values["pre"] not in (*SPLITS, *DIGITS_FIRST):
        return None
    made = plain(values["pre"], values["tokens"], values["merges"])
    defined = [token for token, kind in zip(values["tokens"], values["types"]) if kind == 4]
    made.add_tokens([AddedToken(token, normalized=False) for token in defined])
    return made

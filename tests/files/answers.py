"""Answers of a model that ends texts as soon as it may, and chooses by chance otherwise, and what an independent validator says."""
import hashlib
import json
from pathlib import Path

import jsonschema

import model as tiny

TEMPLATE = (
    "{% if tools %}<|user|>{% for t in tools %}{{ t.function.name }}{% endfor %}<tool_call></tool_call>{% endif %}"
    "{% for m in messages %}<|user|>{{ m.content }}{% endfor %}<|bot|>"
)
SETTINGS = {"bos_token": "<|begin|>", "eos_token": "<|end|>", "chat_template": TEMPLATE}
# Tokens enough for the answer to each schema.
MOST = 1500


def model(folder: Path) -> Path:
    """Writes the model: after each token a quotation mark is by far the most probable."""
    following = {token: '"' for token in tiny.WORDS["tokens"]}
    return tiny.directory(folder, {"next": following, "tokenizer_config": SETTINGS})


def ask(daemon, *arguments: str) -> dict:
    return daemon.ask("hi", "--max-tokens", str(MOST), "--temperature", "1", "--seed", "1", *arguments)


def saved(folder: Path, value) -> str:
    text = json.dumps(value)
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    path.write_text(text, "utf-8")
    return str(path)


def under(daemon, folder: Path, schema, *arguments: str) -> dict:
    return ask(daemon, "--schema", saved(folder, schema), *arguments)


def defect(text: str, schema, unchecked) -> str:
    """What is wrong with an answer; an empty text if nothing is. Keywords in `unchecked` may be violated."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return f"no JSON ({error}): {text[:200]}"
    validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    keywords = {pointer.rsplit("/", 1)[-1] for pointer in unchecked}
    errors = (error for error in leaves(validator(schema).iter_errors(value)) if error.validator not in keywords)
    return next((f"{error.validator}: {error.message[:120]}: {text[:200]}" for error in errors), "")


def leaves(errors):
    """The errors within anyOf and oneOf, and the others as they are."""
    for error in errors:
        if error.context and error.validator in ("anyOf", "oneOf"):
            yield from leaves(error.context)
        else:
            yield error

"""Answers of a model that ends texts as soon as possible and otherwise chooses at random, checked by an independent validator."""
import contextlib
import decimal
import json
import tempfile
from pathlib import Path

import jsonschema
import regex

import model as tiny

TEMPLATE = (
    "{% if tools %}<|user|>{% for t in tools %}{{ t.function.name }}{% endfor %}<tool_call></tool_call>{% endif %}"
    "{% for m in messages %}<|user|>{{ m.content }}{% endfor %}<|bot|>"
)
SETTINGS = {"bos_token": "<|begin|>", "eos_token": "<|end|>", "chat_template": TEMPLATE}
# Enough tokens for the answer to each schema.
MOST = 1500


def model(folder: Path) -> Path:
    """Writes the model: after each token a quotation mark is by far the most probable."""
    following = {token: '"' for token in tiny.WORDS["tokens"]}
    return tiny.directory(folder, {"next": following, "tokenizer_config": SETTINGS})


def ask(daemon, *arguments: str, most: int = MOST, seed: int = 1) -> dict:
    return daemon.ask("hi", "--max-tokens", str(most), "--temperature", "1", "--seed", str(seed), *arguments)


@contextlib.contextmanager
def saved(value):
    """Writes a value as JSON and returns the file's name."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        yield file.name


def under(daemon, schema, *arguments: str, seed: int = 1) -> dict:
    with saved(schema) as name:
        return ask(daemon, "--schema", name, *arguments, seed=seed)


def defect(text: str, schema, unchecked) -> str:
    """Returns the mistake of an answer, or an empty text. Keywords in `unchecked` may be violated."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return f"no JSON ({error}): {text[:200]}"
    draft = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    validator = jsonschema.validators.extend(draft, {"multipleOf": multiple, "pattern": pattern})
    keywords = {pointer.rsplit("/", 1)[-1] for pointer in unchecked}
    errors = (error for error in leaves(validator(schema).iter_errors(value)) if error.validator not in keywords)
    return next((f"{error.validator}: {error.message[:120]}: {text[:200]}" for error in errors), "")


def multiple(_validator, of, number, _schema):
    """Checks multipleOf with decimal numbers."""
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if is_number and decimal.Decimal(repr(number)) % decimal.Decimal(repr(of)):
        yield jsonschema.ValidationError(f"{number} is not a multiple of {of}")


def pattern(_validator, wanted, text, _schema):
    """Checks pattern with the syntax of ECMAScript, including Unicode properties."""
    if isinstance(text, str) and not regex.search(wanted, text):
        yield jsonschema.ValidationError(f"{text!r} does not match {wanted!r}")


def leaves(errors):
    """Returns all errors, and those within anyOf and oneOf one by one."""
    for error in errors:
        if error.context and error.validator in ("anyOf", "oneOf"):
            yield from leaves(error.context)
        else:
            yield error

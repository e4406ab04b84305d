"""Parses tool calls with public parsers: jobs on stdin, results on stdout (JSON).

A job is {"format", "text"} with an answer, whose result is {"content", "calls"}, or {"format", "prompt"} with a rendered
conversation, whose result is all its calls. A call is a pair of name and arguments. transformers parses Hermes and Llama 3 with
trl's response templates; Mistral's own parser parses its formats. `make deps` fetches them to target/parsers.
"""

import ast
import json
import logging
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

PARSERS = Path(__file__).parents[2] / "target/parsers"


def stand_in(name, **members):
    """Replaces the modules that a parser imports and hardly uses."""
    sys.modules[name] = ModuleType(name)
    vars(sys.modules[name]).update(members)


sys.path.insert(0, str(PARSERS))
stand_in("transformers.utils.logging", get_logger=logging.getLogger)
stand_in("transformers.utils.chat_template_utils", get_json_schema=None)
for package in ("protocol", "protocol.instruct", "tokens", "tokens.tokenizers"):
    stand_in(f"mistral_common.{package}")
stand_in("mistral_common.protocol.instruct.tool_calls", FunctionCall=SimpleNamespace, ToolCall=SimpleNamespace)
stand_in(
    "mistral_common.tokens.tokenizers.base",
    SpecialTokenPolicy=SimpleNamespace(IGNORE=None),
    Tokenizer=None,
    TokenizerVersion=SimpleNamespace(v1=1, v7=7, v11=11),
)

from mistral_common.experimental.tools import _decode_tool_calls, _split_content_and_tool_calls
from transformers.utils.chat_parsing.response_parser import parse_response


class Chat:
    """Parses a format with transformers and trl's response template of this name."""

    def __init__(self, name, end):
        source = ast.parse((PARSERS / "trl/chat_template_utils.py").read_text(encoding="utf-8"))
        assigned = {one.targets[0].id: one.value for one in source.body if isinstance(one, ast.Assign)}
        self.template = ast.literal_eval(assigned[name])
        self.end = end

    def answer(self, text):
        message = parse_response(text + self.end, self.template, prefix=self.template["start_anchor"])
        functions = [call["function"] for call in message.get("tool_calls", [])]
        return message.get("content", ""), [(one["name"], one["arguments"]) for one in functions]

    def turns(self, prompt):
        turns = prompt.split(self.template["start_anchor"])[1:]
        return [turn.split(self.end)[0] for turn in turns if self.end in turn]


class Mistral:
    """Parses a format with Mistral's parser for this tokenizer version; each character is a token."""

    CONTROL = ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]")

    def __init__(self, version):
        self.version = version

    def get_special_token(self, name):
        return sys.maxunicode + 1 + self.CONTROL.index(name)

    def decode(self, tokens, special_token_policy=None):
        return "".join(chr(token) for token in tokens if token <= sys.maxunicode)

    def answer(self, text):
        tokens = []
        for part in re.split("(" + "|".join(map(re.escape, self.CONTROL)) + ")", text):
            tokens += [self.get_special_token(part)] if part in self.CONTROL else map(ord, part)
        said, calls = _split_content_and_tool_calls(tokens, self.get_special_token("[TOOL_CALLS]"))
        functions = [call.function for call in _decode_tool_calls(calls, self)]
        return self.decode(said).strip(), [(one.name, one.arguments) for one in functions]

    def turns(self, prompt):
        # The end token depends on the vocabulary: this is the tests' one.
        return re.findall(r"\[TOOL_CALLS\].*?(?=<\|im_end\|>)", prompt, re.DOTALL)


FORMATS = {
    "hermes": Chat("qwen3_template", "<|im_end|>"),
    "llama3": Chat("llama3_template", "<|eot_id|>"),
    "ministral": Mistral(13),
    "mistral-nemo": Mistral(3),
    "mistral-small": Mistral(11),
}


def read(job):
    reader = FORMATS[job["format"]]
    if "prompt" in job:
        return [call for turn in reader.turns(job["prompt"]) for call in reader.answer(turn)[1]]
    content, calls = reader.answer(job["text"])
    return {"content": content, "calls": calls}


json.dump([read(job) for job in json.load(sys.stdin)], sys.stdout)

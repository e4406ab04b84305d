"""Parses tool calls with public parsers: jobs on stdin, results on stdout (JSON).

A job is {"format", "text"} with an answer, whose result is {"content", "calls"}, or {"format", "prompt"} with a rendered
conversation, whose result is all its calls. A call is a pair of name and arguments. "tools" are declared tools. transformers parses
Hermes, Llama 3, Qwen, Nemotron and Gemma with trl's response templates; Mistral's own parser parses its formats; mlx-lm parses
Qwen, Nemotron, Gemma and LFM2. `make deps` fetches them to target/parsers. Parsers of one format must agree.
"""

import ast
import importlib
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


class Names(ast.NodeTransformer):
    """Replaces names by the values that they were assigned."""

    def __init__(self, assigned):
        self.assigned = assigned

    def visit_Name(self, node):
        return self.visit(self.assigned[node.id])


class Chat:
    """Parses a format with transformers and trl's response template of this name."""

    def __init__(self, name, end, start=None):
        source = ast.parse((PARSERS / "trl/chat_template_utils.py").read_text(encoding="utf-8"))
        assigned = {one.targets[0].id: one.value for one in source.body if isinstance(one, ast.Assign)}
        assigned["_XML_INLINE_VALUE_PARSER"] = ast.Constant({"name": "text"})
        self.template = ast.literal_eval(Names(assigned).visit(assigned[name]))
        self.start = start or self.template["start_anchor"]
        self.end = end

    def answer(self, text, tools):
        message = parse_response(text + self.end, self.template, prefix=self.start, tools=tools)
        functions = [call["function"] for call in message.get("tool_calls", [])]
        return message.get("content", ""), [(one["name"], one["arguments"]) for one in functions]

    def turns(self, prompt):
        turns = prompt.split(self.start)[1:]
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

    def answer(self, text, tools):
        tokens = []
        for part in re.split("(" + "|".join(map(re.escape, self.CONTROL)) + ")", text):
            tokens += [self.get_special_token(part)] if part in self.CONTROL else map(ord, part)
        said, calls = _split_content_and_tool_calls(tokens, self.get_special_token("[TOOL_CALLS]"))
        functions = [call.function for call in _decode_tool_calls(calls, self)]
        return self.decode(said).strip(), [(one.name, one.arguments) for one in functions]

    def turns(self, prompt):
        # The end token depends on the vocabulary: this is the tests' one.
        return re.findall(r"\[TOOL_CALLS\].*?(?=<\|im_end\|>)", prompt, re.DOTALL)


class Mlx:
    """Parses a format with mlx-lm's parser of this name. Calls follow `start` in a prompt."""

    def __init__(self, name, start):
        self.parser = importlib.import_module(f"mlx_lm.tool_parsers.{name}")
        self.start = start
        begin, end = map(re.escape, (self.parser.tool_call_start, self.parser.tool_call_end))
        self.call = re.compile(f"{begin}(.*?){end}", re.DOTALL)

    def answer(self, text, tools):
        calls = []
        for call in self.call.findall(text):
            parsed = self.parser.parse_tool_call(call.strip(), tools)
            calls += parsed if isinstance(parsed, list) else [parsed]
        said = text.split(self.parser.tool_call_start)[0].strip()
        return said, [(one["name"], one["arguments"]) for one in calls]

    def turns(self, prompt):
        return prompt.split(self.start)[1:]


QWEN = "<|im_start|>assistant"
NEMOTRON = f"{QWEN}\n<think></think>"
FORMATS = {
    "gemma4": [Mlx("gemma4", "<|turn>model"), Chat("gemma4_template", "<turn|>", "<|turn>model\n")],
    "hermes": [Chat("qwen3_template", "<|im_end|>")],
    "lfm2": [Mlx("pythonic", QWEN)],
    "llama3": [Chat("llama3_template", "<|eot_id|>")],
    "ministral": [Mistral(13)],
    "mistral-nemo": [Mistral(3)],
    "mistral-small": [Mistral(11)],
    "nemotron3": [Mlx("qwen3_coder", QWEN), Chat("nemotron_3_template", "<|im_end|>", NEMOTRON)],
    "qwen3-6-xml": [Mlx("qwen3_coder", QWEN), Chat("qwen3_5_template", "<|im_end|>")],
    "qwen3-xml": [Mlx("qwen3_coder", QWEN), Chat("qwen3_5_template", "<|im_end|>")],
}


def read(reader, job):
    tools = job.get("tools")
    if "prompt" in job:
        return [call for turn in reader.turns(job["prompt"]) for call in reader.answer(turn, tools)[1]]
    content, calls = reader.answer(job["text"], tools)
    return {"content": content, "calls": calls}


def agreed(job):
    # trl's templates strip white space of texts and read single turns, so that the others are only for the first parser.
    alone = job.get("difficult") or "prompt" in job
    readers = FORMATS[job["format"]][: 1 if alone else None]
    results = [read(reader, job) for reader in readers]
    return results[0] if all(result == results[0] for result in results) else {"parsers differ": results}


json.dump([agreed(job) for job in json.load(sys.stdin)], sys.stdout)

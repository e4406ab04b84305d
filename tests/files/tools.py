"""Tools of public MCP servers, with the schemas of their arguments from data/mcp.json.

A tool is right if it is taken while the model need not call it, and the arguments of a call are valid for the package jsonschema.
They may be invalid only under keywords that the result lists as unchecked. Every third tool is also called in the formats of
config/tools that have a syntax of their own.
"""
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import answers
import model as tiny
from daemon import running
from outcome import Outcome

SERVERS = Path(__file__).parent / "data/mcp.json"
# The end of an argument between tags, in the spelling of a byte-level vocabulary.
TAG = "Ċ</parameter>Ċ"
# Texts of the chat templates that have a format, and its special tokens.
FORMATS = {
    "qwen3-xml": ("<tool_call><function=<parameter=", ("<tool_call>", "</tool_call>")),
    "gemma4": ('<|tool_call>call:<tool_call|><|"|>', ("<|tool_call>", "<tool_call|>", '<|"|>')),
    "lfm2": ("List of tools: ", ("<|tool_call_start|>", "<|tool_call_end|>")),
}


def outcomes(bin_folder: Path):
    servers = json.loads(SERVERS.read_text("utf-8"))
    tools = [(server, name, schema) for server, tools in servers.items() for name, schema in tools.items()]
    with tempfile.TemporaryDirectory(prefix="ganglion-tools-") as name:
        with running(bin_folder, answers.model(Path(name) / "model")) as daemon, ThreadPoolExecutor(4) as pool:
            if not daemon.ready:
                yield Outcome("daemon", "wrong", daemon.log()[-300:])
                return
            yield from pool.map(lambda one: offered(daemon, *one), servers.items())
            yield from pool.map(lambda one: called(daemon, "", *one), tools)
        for syntax in FORMATS:
            with running(bin_folder, model(Path(name) / syntax, syntax)) as daemon, ThreadPoolExecutor(4) as pool:
                if not daemon.ready:
                    yield Outcome(syntax, "wrong", daemon.log()[-300:])
                    continue
                yield from pool.map(lambda one: called(daemon, f"{syntax} ", *one), tools[::3])


def model(folder: Path, syntax: str) -> Path:
    """Writes a model of a format that ends texts as soon as possible."""
    known, special = FORMATS[syntax]
    removed = tiny.WORDS["tokens"][-1]
    words = {
        "tokens": [*tiny.WORDS["tokens"][:-1], TAG],
        "merges": [merge for merge in tiny.WORDS["merges"] if merge.replace(" ", "") != removed],
    }
    added = [{"id": len(words["tokens"]) + at, "content": token} for at, token in enumerate(special)]
    ends = ["'", '"', TAG] + [token for token in special if '"' in token]
    following = {token: ends for token in [*words["tokens"], *special]}
    settings = answers.SETTINGS | {"chat_template": answers.TEMPLATE.replace("<tool_call></tool_call>", f"{{# {known} #}}")}
    spec = {"next": following, "words": words, "added_tokens": added, "tokenizer_config": settings}
    return tiny.directory(folder, spec)


def described(name: str, schema) -> dict:
    return {"type": "function", "function": {"name": name[:64], "description": "", "parameters": schema}}


def offered(daemon, server: str, tools: dict) -> Outcome:
    """Declares all tools of a server at once."""
    with answers.saved([described(*tool) for tool in tools.items()]) as offer:
        answer = answers.ask(daemon, "--tools", offer, most=5)
    why = answer.get("error", "")
    return Outcome(f"{server} (all)", "wrong" if why else "right", why)


def called(daemon, prefix: str, server: str, name: str, schema) -> Outcome:
    required = ("--tool-choice", "required", "--one-call", "--schema-lenient")
    with answers.saved([described(name, schema)]) as offer:
        answer = answers.ask(daemon, "--tools", offer, *required)
    if "error" in answer:
        return Outcome(f"{prefix}{server} {name}", "wrong", answer["error"])
    if not answer.get("tool_calls"):
        return Outcome(f"{prefix}{server} {name}", "wrong", f"no call: {answer}")
    text = answer["tool_calls"][0]["function"]["arguments"]
    why = answers.defect(text, schema, answer.get("unchecked", ()))
    return Outcome(f"{prefix}{server} {name}", "wrong" if why else "right", why)

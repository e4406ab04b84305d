"""Tools of public MCP servers, with the schemas of their arguments from data/mcp.json.

A tool is right if it is taken while the model need not call it, and the arguments of a call are valid for the package jsonschema.
They may be invalid only under keywords that the result lists as unchecked.
"""
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import answers
from daemon import running
from outcome import Outcome

SERVERS = Path(__file__).parent / "data/mcp.json"


def outcomes(bin_folder: Path):
    servers = json.loads(SERVERS.read_text("utf-8"))
    with tempfile.TemporaryDirectory(prefix="ganglion-tools-") as name:
        with running(bin_folder, answers.model(Path(name) / "model")) as daemon, ThreadPoolExecutor(4) as pool:
            if not daemon.ready:
                yield Outcome("daemon", "wrong", daemon.log()[-300:])
                return
            yield from pool.map(lambda one: offered(daemon, *one), servers.items())
            tools = [(server, name, schema) for server, tools in servers.items() for name, schema in tools.items()]
            yield from pool.map(lambda one: called(daemon, *one), tools)


def described(name: str, schema) -> dict:
    return {"type": "function", "function": {"name": name[:64], "description": "", "parameters": schema}}


def offered(daemon, server: str, tools: dict) -> Outcome:
    """Declares all tools of a server at once."""
    with answers.saved([described(*tool) for tool in tools.items()]) as offer:
        answer = answers.ask(daemon, "--tools", offer, most=5)
    why = answer.get("error", "")
    return Outcome(f"{server} (all)", "wrong" if why else "right", why)


def called(daemon, server: str, name: str, schema) -> Outcome:
    required = ("--tool-choice", "required", "--one-call", "--schema-lenient")
    with answers.saved([described(name, schema)]) as offer:
        answer = answers.ask(daemon, "--tools", offer, *required)
    if "error" in answer:
        return Outcome(f"{server} {name}", "wrong", answer["error"])
    text = answer["tool_calls"][0]["function"]["arguments"]
    why = answers.defect(text, schema, answer.get("unchecked", ()))
    return Outcome(f"{server} {name}", "wrong" if why else "right", why)

"""Inputs from public bug reports of similar programs, one per file of cases/.

A case has an input (`template` and `variables`, `model` or `gguf` as model.py writes them, `files` next to it), what is done
with it (`kind`), the right outcome by the reference (`want`), and its `source`.
"""
import json
import subprocess
import tempfile
from pathlib import Path

from dbus_fast import Variant

import model
from daemon import running
from outcome import Outcome
from renderer import render

FOLDER = Path(__file__).parent / "cases"


def outcomes(bin_folder: Path):
    for path in sorted(FOLDER.glob("*.json"), key=lambda path: int(path.stem.split("-")[0])):
        case = json.loads(path.read_text("utf-8"))
        with tempfile.TemporaryDirectory(prefix="ganglion-case-") as folder:
            seen, right = KINDS[case["kind"]](bin_folder, Path(folder), case)
        yield Outcome(path.stem, "right" if right else "wrong", str(seen))


def write(folder: Path, case: dict) -> Path:
    """Writes the files of a case; returns the model's path."""
    for name, value in case.get("files", {}).items():
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value), "utf-8", newline="")
    if "gguf" in case:
        return model.gguf_file(folder / "model.gguf", case["gguf"])
    return model.directory(folder / "model", case.get("model", {}))


def rendered(bin_folder, _folder, case):
    seen = render(bin_folder, case["template"], case["variables"])
    return seen, seen == ("Text", case["want"])


def tokenize(bin_folder, folder, text):
    command = [bin_folder / "ganglionctl", "tokenize", "--model", folder, "--", text]
    return subprocess.run(command, capture_output=True, text=True)


def tokenized(bin_folder, folder, case):
    done = tokenize(bin_folder, write(folder, case), case["text"])
    seen = [int(token) for token in done.stdout.split()] if done.returncode == 0 else done.stderr.strip()
    return seen, seen == case["want"]


def loaded(bin_folder, folder, case):
    """Checks the outcome: `want` is "ok", or a word of the error."""
    done = tokenize(bin_folder, write(folder, case), "def hello")
    seen = "ok" if done.returncode == 0 else done.stderr.strip()
    return seen, case["want"] in seen and (seen == "ok") == (case["want"] == "ok")


def started(bin_folder, folder, case):
    with running(bin_folder, write(folder, case), case.get("toml", "")) as daemon:
        return "ready" if daemon.ready else daemon.log()[-300:], daemon.ready


def arguments(folder, case):
    return [value.replace("@", f"{folder}/") if value.startswith("@") else value for value in case.get("args", ())]


def asked(bin_folder, folder, case):
    with running(bin_folder, write(folder, case), case.get("toml", "")) as daemon:
        if not daemon.ready:
            return refused(daemon), case["want"] == {"finish_reason": None}
        answer = daemon.ask(case.get("text", "hi"), *arguments(folder, case))
        seen = answer | answer.get("usage", {})
        return seen, all(seen.get(name) == value for name, value in case["want"].items())


def accepted(bin_folder, folder, case):
    options = ("--max-tokens", "200", "--temperature", "1", "--seed", "1")
    with running(bin_folder, write(folder, case)) as daemon:
        if not daemon.ready:
            return refused(daemon), False
        answer = daemon.ask("hi", *arguments(folder, case), *options)
        return answer, "error" not in answer


def completed(bin_folder, folder, case):
    """Returns a conversation in the bus's types."""
    messages = [
        [message["role"], {name: Variant("s", value) for name, value in message.items() if name != "role"}]
        for message in case["messages"]
    ]
    options = {"messages": Variant("a(sa{sv})", messages), "max_tokens": Variant("u", 5)}
    with running(bin_folder, write(folder, case)) as daemon:
        if not daemon.ready:
            return refused(daemon), False
        reply = daemon.call("org.ganglion.Llm1.Manager", "Complete", "sa{sv}", "", options)
        if reply.error_name:
            return (reply.error_name, reply.body), False
        seen = {name: value.value for name, value in reply.body[1].items()}
        return seen, all(seen.get(name) == value for name, value in case["want"].items())


def called_without_interface(bin_folder, folder, case):
    with running(bin_folder, write(folder, case)) as daemon:
        options = {"max_tokens": Variant("u", 5), "temperature": Variant("d", 0.0)}
        reply = daemon.call(None, "Complete", "sa{sv}", "hi", options)
        return (reply.error_name, reply.body), not reply.error_name and reply.body[0] == case["want"]


def set_read_only(bin_folder, folder, case):
    with running(bin_folder, write(folder, case)) as daemon:
        value = ("org.ganglion.Llm1.Manager", "State", Variant("s", "x"))
        reply = daemon.call("org.freedesktop.DBus.Properties", "Set", "ssv", *value)
        return (reply.error_name, reply.body), reply.error_name == case["want"]


def refused(daemon):
    return "not ready: " + daemon.log()[-300:]


KINDS = {
    "render": rendered,
    "tokenize": tokenized,
    "load": loaded,
    "start": started,
    "ask": asked,
    "accept": accepted,
    "complete": completed,
    "nointerface": called_without_interface,
    "readonly": set_read_only,
}

"""Public chat templates, each with 50 conversations: rendered by the daemon's process and by jinja2 in transformers' setup.

The templates are those of llama.cpp (tests/deps/templates.py) and of trl (tests/deps/parsers.py). A conversation is right if both
texts are equal, or if both refuse it. One of a template that is not loaded is refused.
"""
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from outcome import Outcome
from renderer import Renderer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
from transformers_jinja import environment  # noqa: E402

CONVERSATIONS = Path(__file__).with_name("conversations.json")
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def templates():
    """Returns names and sources without duplicates."""
    folders = (ROOT / "target/templates", ROOT / "target/parsers/trl/chat_templates")
    known = set()
    for path in (path for folder in folders for path in sorted(folder.glob("*.jinja"))):
        source = path.read_text("utf-8")
        if source not in known:
            known.add(source)
            yield path.stem, source


def conversations():
    for conversation in json.loads(CONVERSATIONS.read_text("utf-8")):
        name = conversation.pop("name")
        yield name, {"documents": None, **TOKENS, **conversation}


def reference(source):
    """Returns jinja2's text of each conversation, or None for an error."""
    rendered = {}
    try:
        template = environment().from_string(source)
    except Exception:
        return {name: None for name, _ in conversations()}
    for name, variables in conversations():
        try:
            rendered[name] = template.render(**variables)
        except Exception:
            rendered[name] = None
    return rendered


def compared(bin_folder, name, source):
    renderer = Renderer(bin_folder, source)
    wanted = reference(source)
    if renderer.answer[0] != "Text":
        renderer.close()
        verdict = "refused" if any(wanted.values()) else "right"
        return [Outcome(name, verdict, renderer.answer[1]) for _ in wanted]
    outcomes = []
    for conversation, variables in conversations():
        kind, text = renderer.render(variables)
        if kind in ("Stopped", "Died"):
            renderer.close()
            renderer = Renderer(bin_folder, source)
        want = wanted[conversation]
        right = text == want if kind == "Text" else want is None
        detail = "" if right else difference(kind, text, want)
        verdict = "right" if right else "refused" if kind != "Text" else "wrong"
        outcomes.append(Outcome(f"{name}: {conversation}", verdict, detail))
    renderer.close()
    return outcomes


def difference(kind, text, want):
    if kind != "Text" or want is None:
        return f"{kind}: {text!r}, and jinja2 has {want!r}"
    at = next((at for at, (one, other) in enumerate(zip(text, want)) if one != other), min(len(text), len(want)))
    return f"at {at}: {text[at - 20:at + 40]!r}, and jinja2 has {want[at - 20:at + 40]!r}"


def outcomes(bin_folder: Path):
    with ThreadPoolExecutor(2) as pool:
        for several in pool.map(lambda one: compared(bin_folder, *one), list(templates())):
            yield from several

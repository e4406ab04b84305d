"""Runs one of five checks over another D-Bus library: try.py LIBRARY generate|session|cancel|complete|signals

LIBRARY is a file in this folder with a class `Client`. The checks block on each answer, so they are not examples to copy.
"""

import importlib
import json
import os
import sys


def answer(fd):
    """Returns the text of a stream, and its last frame."""
    with os.fdopen(fd) as stream:
        frames = [json.loads(line) for line in stream]
    return "".join(frame.get("text", "") for frame in frames), frames[-1]


def generate(client):
    _, stream = client.generate("hello", 20)
    text, last = client.answer(stream)
    assert text and last["finish_reason"] == "length", last


def session(client):
    path = client.open_session()
    for text in ("hello", "and again"):
        _, stream = client.send(path, text, 10)
        assert client.answer(stream)[1]["finish_reason"] == "length"
    roles = [role for role, _ in client.messages(path)]
    assert roles == ["user", "assistant"] * 2, roles


def cancel(client):
    path, stream = client.generate("hello", 400)
    client.cancel(path)
    assert client.answer(stream)[1]["finish_reason"] == "cancelled"


def complete(client):
    assert client.complete("hello", 10)


def signals(client):
    assert client.signals("hello", 20)


if __name__ == "__main__":
    verb = {f.__name__: f for f in (generate, session, cancel, complete, signals)}[sys.argv[2]]
    client = importlib.import_module(sys.argv[1]).Client()
    # A library without descriptors reads answers in its own way.
    client.answer = getattr(client, "answer", answer)
    verb(client)

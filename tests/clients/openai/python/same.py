"""Compares answers over HTTP with those over D-Bus, token by token, at temperature 0 (pip install openai dbus-fast).

same.py: prints each token that both have, and ends with status 1 at the first difference.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from httpx2 import AsyncHTTPTransport
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

sys.path.append(str(Path(__file__).parents[2] / "python"))
from ganglion import Ganglion, expect, fields, message

SOCKET = os.environ.get("GANGLION_SOCKET", "/run/ganglion/openai.sock")
SCHEMA = {
    "type": "object",
    "properties": {"room": {"enum": ["kitchen", "hall"]}, "metres": {"type": "integer"}},
    "required": ["room", "metres"],
    "additionalProperties": False,
}
# The messages, and what the options of D-Bus and the fields of HTTP have in common.
QUESTIONS = [
    ([("user", "Name a colour.")], None),
    ([("system", "You are brief."), ("user", "Say 'grüße 🌍' twice.")], None),
    ([("user", "Two?"), ("assistant", "Three."), ("user", "And then?")], None),
    ([("user", "Drive two metres into the hall.")], SCHEMA),
]
MOST = 48


async def over_dbus(ganglion, messages, schema):
    """The tokens with their log probabilities, and the counts of the prompt and of the answer."""
    options = fields(temperature=0.0, max_tokens=MOST, logprobs=3)
    if schema:
        options |= fields(json_schema=json.dumps(schema))
    said = [message(role, content) for role, content in messages]
    answer = await ganglion.answer(ganglion.manager.call_generate(said, options))
    tokens, text = [], ""
    async for frame in answer.frames:
        tokens += frame.get("logprobs", [])
        text += frame.get("text", "")
        last = frame
    usage = last["usage"]
    tops = [[(one["text"], one["logprob"]) for one in token["best"]] for token in tokens]
    tokens = [(token["text"], token["logprob"]) for token in tokens]
    return text, tokens, tops, (usage["prompt_tokens"], usage["completion_tokens"])


def over_http(client, messages, schema, stream):
    options = {"temperature": 0, "max_tokens": MOST, "logprobs": True, "top_logprobs": 3}
    if schema:
        form = {"name": "go", "strict": True, "schema": schema}
        options["response_format"] = {"type": "json_schema", "json_schema": form}
    if stream:
        options |= {"stream": True, "stream_options": {"include_usage": True}}
    said = [{"role": role, "content": content} for role, content in messages]
    return client.chat.completions.create(model="ganglion", messages=said, **options)


def listed(logprobs):
    """The tokens of a choice, and the most probable ones at each position."""
    content = logprobs.content if logprobs else []
    tops = [[(one.token, one.logprob) for one in token.top_logprobs] for token in content]
    return [(token.token, token.logprob) for token in content], tops


async def whole(client, messages, schema):
    answer = await over_http(client, messages, schema, stream=False)
    tokens, tops = listed(answer.choices[0].logprobs)
    usage = answer.usage
    text = answer.choices[0].message.content
    return text, tokens, tops, (usage.prompt_tokens, usage.completion_tokens)


async def streamed(client, messages, schema):
    tokens, tops, text = [], [], ""
    async for chunk in await over_http(client, messages, schema, stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            more, more_tops = listed(choice.logprobs)
            tokens, tops = tokens + more, tops + more_tops
    usage = chunk.usage
    return text, tokens, tops, (usage.prompt_tokens, usage.completion_tokens)


def same(dbus, http, what):
    for number, (ours, theirs) in enumerate(zip(dbus[1], http[1])):
        expect(ours[0] == theirs[0], f"{what}: token {number} is {ours} and {theirs}")
        # JSON has as many digits as the number needs.
        expect(abs(ours[1] - theirs[1]) < 1e-5, f"{what}: token {number} is {ours} and {theirs}")
    for one, (ours, theirs) in enumerate(zip(dbus, http)):
        if one != 1 and one != 2:
            expect(ours == theirs, f"{what}: {ours} and {theirs}")
    expect(len(dbus[1]) == len(http[1]), f"{what}: {len(dbus[1])} and {len(http[1])} tokens")
    for ours, theirs in zip(dbus[2], http[2]):
        expect([one[0] for one in ours] == [one[0] for one in theirs], f"{what}: {ours} {theirs}")


async def main():
    ganglion = await Ganglion().connect()
    transport = AsyncHTTPTransport(uds=SOCKET)
    client = AsyncOpenAI(
        base_url="http://localhost/v1",
        api_key="none",
        http_client=DefaultAsyncHttpxClient(transport=transport),
    )
    count = 0
    for messages, schema in QUESTIONS:
        dbus = await over_dbus(ganglion, messages, schema)
        expect(dbus[1], f"no tokens: {dbus}")
        same(dbus, await whole(client, messages, schema), "whole")
        same(dbus, await streamed(client, messages, schema), "stream")
        print(len(dbus[1]), "tokens are the same:", repr(dbus[0]), flush=True)
        count += len(dbus[1])
    print(f"all {count} tokens are the same")


asyncio.run(main())

"""A client with the package anthropic (pip install anthropic): the daemon has its Messages API too.

with_anthropic.py chat | stream | async | tools | parse | image FILE | refuse
"""

import asyncio
import base64
import os
import sys
from typing import Literal

from anthropic import (
    Anthropic,
    AsyncAnthropic,
    BadRequestError,
    DefaultAsyncHttpxClient,
    DefaultHttpxClient,
)
from httpx2 import AsyncHTTPTransport, HTTPTransport
from pydantic import BaseModel

SOCKET = os.environ.get("GANGLION_SOCKET", "/run/ganglion/openai.sock")
# The host is not used, and the key is ignored: the daemon knows the user of a socket's peer.
WHERE = {"base_url": "http://localhost", "api_key": "none"}
client = Anthropic(**WHERE, http_client=DefaultHttpxClient(transport=HTTPTransport(uds=SOCKET)))
MODEL = "ganglion"
ENDS = ("end_turn", "max_tokens")
GO = {
    "name": "go",
    "description": "Drives to a room.",
    "input_schema": {
        "type": "object",
        "properties": {"room": {"enum": ["kitchen", "hall"]}},
        "required": ["room"],
        "additionalProperties": False,
    },
}


class Go(BaseModel):
    room: Literal["kitchen", "hall"]


def user(content):
    return {"role": "user", "content": content}


def chat():
    asked = {"model": MODEL, "messages": [user("Name a colour.")], "system": "You are brief."}
    answer = client.messages.create(**asked, max_tokens=20)
    print(answer.content[0].text, answer.stop_reason)
    assert answer.content[0].text and answer.stop_reason in ENDS
    counted = client.messages.count_tokens(**asked)
    usage = answer.usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens
    # Consecutive messages of one role are one turn.
    counts = [
        client.messages.count_tokens(model=MODEL, messages=said).input_tokens
        for said in ([user("Name a colour."), user("Be brief.")], [user("Name a colour.\nBe brief.")])
    ]
    assert counts[0] == counts[1], counts
    # A model without thoughts has none, with or without a budget; those of an answer may come back.
    thinking = {"type": "enabled", "budget_tokens": 1024}
    thoughts = {"type": "thinking", "thinking": "The user wants a colour.", "signature": ""}
    said = [
        user("Name a colour."),
        {"role": "assistant", "content": [thoughts, {"type": "text", "text": "Red."}]},
        user("Another one."),
    ]
    answer = client.messages.create(model=MODEL, messages=said, max_tokens=20, thinking=thinking)
    assert answer.content[-1].type == "text"


def stream():
    with client.messages.stream(
        model=MODEL, messages=[user("Name a colour.")], max_tokens=20
    ) as events:
        said = "".join(events.text_stream)
        last = events.get_final_message()
    print(said)
    assert said == last.content[0].text and last.stop_reason in ENDS
    assert last.usage.output_tokens > 0


async def several():
    """Three answers at once, one of which is abandoned."""
    transport = AsyncHTTPTransport(uds=SOCKET)
    async with AsyncAnthropic(
        **WHERE, http_client=DefaultAsyncHttpxClient(transport=transport)
    ) as client:

        async def ask(colour, most):
            asked = client.messages.stream(
                model=MODEL, messages=[user(f"What is {colour}?")], max_tokens=most
            )
            async with asked as events:
                async for _ in events.text_stream:
                    if most > 20:
                        return "abandoned"
                return (await events.get_final_message()).stop_reason

        ends = await asyncio.gather(ask("red", 8), ask("green", 400), ask("blue", 8))
        print(ends)
        assert ends[1] == "abandoned" and {ends[0], ends[2]} <= set(ENDS)


def tools():
    said = [user("Drive to the kitchen.")]
    options = {"model": MODEL, "tools": [GO], "max_tokens": 60}
    choice = {"type": "any", "disable_parallel_tool_use": True}
    with client.messages.stream(**options, messages=said, tool_choice=choice) as events:
        first = events.get_final_message()
    assert first.stop_reason == "tool_use", first
    (call,) = [block for block in first.content if block.type == "tool_use"]
    print(call.name, call.input)
    assert call.input["room"] in ("kitchen", "hall")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": f"at {call.input['room']}"}
    said += [{"role": "assistant", "content": first.content}, user([result])]
    last = client.messages.create(**options, messages=said, tool_choice={"type": "none"})
    print(last.content[0].text)
    assert last.stop_reason in ENDS


def parse():
    answer = client.messages.parse(
        model=MODEL, messages=[user("Drive to the hall.")], output_format=Go, max_tokens=60
    )
    print(repr(answer.parsed_output))
    assert isinstance(answer.parsed_output, Go)


def image(file):
    """Needs a model with a vision tower."""
    with open(file, "rb") as picture:
        data = base64.b64encode(picture.read()).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    parts = [{"type": "image", "source": source}, {"type": "text", "text": "What is this?"}]
    answer = client.messages.create(model=MODEL, messages=[user(parts)], max_tokens=12)
    print(answer.content[0].text, answer.usage.input_tokens)
    # The image takes tokens of the prompt.
    assert answer.usage.input_tokens > 16


def refuse():
    """A field that would change the answer is an error that names it."""
    asked = {"model": MODEL, "messages": [user("Left or right?")], "max_tokens": 20}
    try:
        client.messages.create(**asked, extra_body={"mcp_servers": [{}]})
    except BadRequestError as error:
        print(error)
        assert error.body["error"]["type"] == "invalid_request_error"
        assert "mcp_servers" in error.body["error"]["message"]
    else:
        raise SystemExit("FAILED: a field was ignored")
    # The extensions are in one field.
    extensions = {"ganglion": {"choice": ["left", "right"], "priority": "background"}}
    answer = client.messages.create(**asked, extra_body=extensions)
    assert answer.content[0].text in ("left", "right")


verbs = {
    "chat": chat,
    "stream": stream,
    "async": lambda: asyncio.run(several()),
    "tools": tools,
    "parse": parse,
    "image": image,
    "refuse": refuse,
}
verbs[sys.argv[1]](*sys.argv[2:])

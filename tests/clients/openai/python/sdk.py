"""A client with the package openai (pip install openai). Only its first lines differ from a program for OpenAI's service.

sdk.py chat | stream | async | tools | parse | image [FILE] | refuse
sdk.py responses chat | stream | tools | parse | image FILE | refuse
"""

import asyncio
import base64
import json
import os
import sys
from typing import Annotated, Literal

from httpx2 import AsyncHTTPTransport, HTTPTransport
from openai import (
    AsyncOpenAI,
    BadRequestError,
    DefaultAsyncHttpxClient,
    DefaultHttpxClient,
    OpenAI,
    pydantic_function_tool,
)
from pydantic import BaseModel, Field
from responses import run

SOCKET = os.environ.get("GANGLION_SOCKET", "/run/ganglion/openai.sock")
# The host is not used, and the key is ignored: the daemon knows the user of a socket's peer.
WHERE = {"base_url": "http://localhost/v1", "api_key": "none"}
client = OpenAI(**WHERE, http_client=DefaultHttpxClient(transport=HTTPTransport(uds=SOCKET)))
MODEL = "ganglion"


class Go(BaseModel):
    """Drives to a room."""

    room: Literal["kitchen", "hall", "workshop"]
    metres_per_second: Annotated[float, Field(ge=0.1, le=1.5)]


def user(text):
    return {"role": "user", "content": text}


def chat():
    answer = client.chat.completions.create(
        model=MODEL, messages=[user("Name a colour.")], max_tokens=20, temperature=0
    )
    choice, usage = answer.choices[0], answer.usage
    print(choice.message.content, choice.finish_reason)
    assert choice.message.content and choice.finish_reason in ("stop", "length")
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert [model.id for model in client.models.list()] == [answer.model]


def stream():
    pieces, ends = [], []
    for chunk in client.chat.completions.create(
        model=MODEL,
        messages=[user("Name a colour.")],
        max_tokens=20,
        stream=True,
        stream_options={"include_usage": True},
    ):
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            ends.append(choice.finish_reason)
    print("".join(pieces))
    assert ends.pop() in ("stop", "length") and set(ends) <= {None}
    assert chunk.usage.completion_tokens > 0
    # The SDK's helper puts the chunks together.
    with client.chat.completions.stream(
        model=MODEL, messages=[user("Name a colour.")], max_tokens=20
    ) as events:
        said = "".join(event.delta for event in events if event.type == "content.delta")
        # An answer that is cut off is an error of get_final_completion.
        assert said == events.current_completion_snapshot.choices[0].message.content


async def several():
    """Three answers at once, one of which is abandoned."""
    transport = AsyncHTTPTransport(uds=SOCKET)
    async with AsyncOpenAI(
        **WHERE, http_client=DefaultAsyncHttpxClient(transport=transport)
    ) as client:

        async def ask(colour, most):
            answer = client.chat.completions.create(
                model=MODEL, messages=[user(f"What is {colour}?")], max_tokens=most, stream=True
            )
            async with await answer as chunks:
                async for chunk in chunks:
                    if chunk.choices and most > 20 and chunk.choices[0].delta.content:
                        return "abandoned"
            return chunk.choices[0].finish_reason

        ends = await asyncio.gather(ask("red", 8), ask("green", 400), ask("blue", 8))
        print(ends)
        assert ends[1] == "abandoned" and {ends[0], ends[2]} <= {"stop", "length"}


def tools():
    messages = [user("Drive to the kitchen.")]
    options = {"model": MODEL, "tools": [pydantic_function_tool(Go)], "max_tokens": 60}
    first = client.chat.completions.create(
        **options, messages=messages, tool_choice="required", parallel_tool_calls=False
    ).choices[0]
    assert first.finish_reason == "tool_calls", first
    (call,) = first.message.tool_calls
    go = Go.model_validate_json(call.function.arguments)
    print(call.function.name, go)
    result = {"role": "tool", "tool_call_id": call.id, "content": json.dumps({"at": go.room})}
    messages += [first.message, result]
    last = client.chat.completions.create(**options, messages=messages, tool_choice="none")
    print(last.choices[0].message.content)
    assert last.choices[0].finish_reason in ("stop", "length")


def parse():
    answer = client.chat.completions.parse(
        model=MODEL,
        messages=[user("Drive slowly to the hall.")],
        response_format=Go,
        max_tokens=60,
    )
    go = answer.choices[0].message.parsed
    print(repr(go))
    assert isinstance(go, Go)


def image(file):
    """Needs a model with a vision tower."""
    with open(file, "rb") as picture:
        url = "data:image/png;base64," + base64.b64encode(picture.read()).decode()
    parts = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "What is this?"},
    ]
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": parts}], max_tokens=12
    )
    print(answer.choices[0].message.content, answer.usage.prompt_tokens)
    # The image takes tokens of the prompt.
    assert answer.usage.prompt_tokens > 16


def refuse():
    """A field that would change the answer is an error that names it."""
    try:
        client.chat.completions.create(
            model=MODEL, messages=[user("Name a colour.")], logit_bias={"1": 5}
        )
    except BadRequestError as error:
        print(error.param, error)
        assert error.param == "logit_bias"
    else:
        raise SystemExit("FAILED: a field was ignored")
    # The extensions are in one field.
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[user("Left or right?")],
        extra_body={"ganglion": {"choice": ["left", "right"], "priority": "background"}},
    )
    assert answer.choices[0].message.content in ("left", "right")


verbs = {
    "chat": chat,
    "stream": stream,
    "async": lambda: asyncio.run(several()),
    "tools": tools,
    "parse": parse,
    "image": image,
    "refuse": refuse,
    "responses": lambda *verb: run(client, MODEL, Go, *verb),
}
verbs[sys.argv[1]](*sys.argv[2:])

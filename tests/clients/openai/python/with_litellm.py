"""A client with LiteLLM (pip install litellm).

with_litellm.py chat | stream | tools | parse
"""

import json
import os
import sys
from typing import Literal

# Nothing is fetched from the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
import litellm
from httpx2 import HTTPTransport
from openai import DefaultHttpxClient, OpenAI
from pydantic import BaseModel

SOCKET = os.environ.get("GANGLION_SOCKET", "/run/ganglion/openai.sock")
client = OpenAI(
    base_url="http://localhost/v1",
    api_key="none",
    http_client=DefaultHttpxClient(transport=HTTPTransport(uds=SOCKET)),
)


class Plan(BaseModel):
    """Where to go."""

    room: Literal["kitchen", "hall", "workshop"]
    loaded: bool


GO = {
    "type": "function",
    "function": {"name": "go", "description": "Goes.", "parameters": Plan.model_json_schema()},
}


def ask(text, **options):
    return litellm.completion(
        model="openai/ganglion",
        client=client,
        messages=[{"role": "user", "content": text}],
        max_tokens=60,
        **options,
    )


def chat():
    answer = ask("Name a colour.", temperature=0)
    print(answer.choices[0].message.content)
    assert answer.usage.completion_tokens > 0


def stream():
    pieces = [chunk.choices[0].delta.content or "" for chunk in ask("Name a colour.", stream=True)]
    print("".join(pieces))
    assert len(pieces) > 2


def tools():
    (call,) = (
        ask("Bring the cup.", tools=[GO], tool_choice="required", parallel_tool_calls=False)
        .choices[0]
        .message.tool_calls
    )
    print(repr(Plan(**json.loads(call.function.arguments))))


def parse():
    answer = ask("Bring the cup.", response_format=Plan)
    print(repr(Plan.model_validate_json(answer.choices[0].message.content)))


verbs = {"chat": chat, "stream": stream, "tools": tools, "parse": parse}
verbs[sys.argv[1]]()

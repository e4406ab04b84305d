"""A client with LangChain (pip install langchain-openai).

with_langchain.py chat | stream | async | tools | parse
"""

import asyncio
import os
import sys
from typing import Literal

from httpx2 import AsyncHTTPTransport, HTTPTransport
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import DefaultAsyncHttpxClient, DefaultHttpxClient
from pydantic import BaseModel

SOCKET = os.environ.get("GANGLION_SOCKET", "/run/ganglion/openai.sock")
model = ChatOpenAI(
    model="ganglion",
    base_url="http://localhost/v1",
    api_key="none",
    http_client=DefaultHttpxClient(transport=HTTPTransport(uds=SOCKET)),
    http_async_client=DefaultAsyncHttpxClient(transport=AsyncHTTPTransport(uds=SOCKET)),
    max_tokens=40,
    temperature=0,
)


class Plan(BaseModel):
    """Where to go."""

    room: Literal["kitchen", "hall", "workshop"]
    loaded: bool


@tool
def go(room: Literal["kitchen", "hall", "workshop"]) -> str:
    """Goes to a room."""
    return f"in the {room}"


def chat():
    answer = model.invoke("Name a colour.")
    print(answer.content, answer.usage_metadata)
    assert answer.content and answer.usage_metadata["output_tokens"] > 0


def stream():
    pieces = [piece.content for piece in model.stream("Name a colour.")]
    print("".join(pieces))
    assert len(pieces) > 2


def tools():
    asked = [HumanMessage("Go to the hall.")]
    first = model.bind_tools([go], tool_choice="any").invoke(asked)
    results = [go.invoke(call) for call in first.tool_calls]
    assert results and all(isinstance(result, ToolMessage) for result in results)
    last = model.bind_tools([go], tool_choice="none").invoke([*asked, first, *results])
    print(results[0].content, "->", last.content)
    assert last.content


def parse():
    plan = model.with_structured_output(Plan, method="json_schema").invoke("Bring the cup.")
    print(repr(plan))
    assert isinstance(plan, Plan)


verbs = {
    "chat": chat,
    "stream": stream,
    "async": lambda: print(asyncio.run(model.ainvoke("Name a colour.")).content),
    "tools": tools,
    "parse": parse,
}
verbs[sys.argv[1]]()

"""An agent with Pydantic AI (pip install 'pydantic-ai-slim[openai]').

with_pydantic_ai.py chat | stream | tools | parse
"""

import asyncio
import os
import sys
from typing import Literal

from httpx2 import AsyncHTTPTransport
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

SOCKET = os.environ.get("GANGLION_SOCKET", "/run/ganglion/openai.sock")
client = AsyncOpenAI(
    base_url="http://localhost/v1",
    api_key="none",
    http_client=DefaultAsyncHttpxClient(transport=AsyncHTTPTransport(uds=SOCKET)),
)
model = OpenAIChatModel("ganglion", provider=OpenAIProvider(openai_client=client))
settings = {"max_tokens": 60, "temperature": 0}


class Plan(BaseModel):
    """Where to go."""

    room: Literal["kitchen", "hall", "workshop"]
    loaded: bool


async def chat():
    result = await Agent(model, model_settings=settings).run("Name a colour.")
    print(result.output)
    assert result.output


async def stream():
    agent = Agent(model, model_settings=settings)
    async with agent.run_stream("Name a colour.") as result:
        pieces = [piece async for piece in result.stream_text(delta=True)]
    print("".join(pieces))
    assert pieces


async def tools():
    """The answer is a call of a tool whose arguments are the plan."""
    result = await Agent(model, output_type=Plan, model_settings=settings).run("Bring the cup.")
    print(repr(result.output))
    assert isinstance(result.output, Plan)


async def parse():
    """The answer is JSON that fits the schema of the plan."""
    agent = Agent(model, output_type=NativeOutput(Plan), model_settings=settings)
    result = await agent.run("Bring the cup.")
    print(repr(result.output))
    assert isinstance(result.output, Plan)


verbs = {"chat": chat, "stream": stream, "tools": tools, "parse": parse}
asyncio.run(verbs[sys.argv[1]]())

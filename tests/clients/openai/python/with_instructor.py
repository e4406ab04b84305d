"""Typed answers with instructor (pip install instructor).

with_instructor.py tools | parse
"""

import os
import sys
from typing import Literal

import instructor
from httpx2 import HTTPTransport
from openai import DefaultHttpxClient, OpenAI
from pydantic import BaseModel, ConfigDict

SOCKET = os.environ.get("GANGLION_SOCKET", "/run/ganglion/openai.sock")
client = OpenAI(
    base_url="http://localhost/v1",
    api_key="none",
    http_client=DefaultHttpxClient(transport=HTTPTransport(uds=SOCKET)),
)
MODES = {"tools": instructor.Mode.TOOLS, "parse": instructor.Mode.JSON_SCHEMA}


class Plan(BaseModel):
    """Where to go."""

    # A schema that does not forbid them lets the model add members of its own.
    model_config = ConfigDict(extra="forbid")
    room: Literal["kitchen", "hall", "workshop"]
    loaded: bool


plan = instructor.from_openai(client, mode=MODES[sys.argv[1]]).chat.completions.create(
    model="ganglion",
    response_model=Plan,
    messages=[{"role": "user", "content": "Bring the cup."}],
    max_tokens=60,
    max_retries=0,
)
print(repr(plan))
assert isinstance(plan, Plan)

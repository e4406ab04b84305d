"""A simulated robot that a model moves by tools, with asyncio and dbus-fast (pip install dbus-fast).

robot.py [QUESTION]: the model gets the robot's tools, calls them, and gets their results, until it answers. A model with a
vision tower can also look: the result of that tool is a frame of the robot's camera.
"""

import asyncio
import json
import os
import sys

from dbus_fast import BusType, Variant
from dbus_fast.aio import MessageBus

NAME, ROOT = "org.ganglion.Llm1", "/org/ganglion/Llm1"
ROUNDS = 4

# A room of 9 by 9 metres; the robot stands in its middle and looks north.
WIDTH, HEIGHT = 64, 48
HEADINGS = {"north": (0, 1), "east": (1, 0), "south": (0, -1), "west": (-1, 0)}


class Robot:
    def __init__(self):
        self.x, self.y, self.heading = 4, 4, "north"

    def turn(self, heading):
        """Turns to a point of the compass."""
        self.heading = heading
        return f"looking {heading}"

    def go(self, metres):
        """Goes straight on, or stops at the wall."""
        dx, dy = HEADINGS[self.heading]
        for gone in range(metres):
            if not (0 <= self.x + dx <= 8 and 0 <= self.y + dy <= 8):
                return f"bumped into the wall after {gone} m, at {self.x}, {self.y}"
            self.x, self.y = self.x + dx, self.y + dy
        return f"at {self.x}, {self.y}"

    def look(self):
        """Takes a picture of what is ahead."""
        dx, dy = HEADINGS[self.heading]
        metres = (8 - self.x if dx > 0 else self.x) if dx else (8 - self.y if dy > 0 else self.y)
        # A red wall, the higher the nearer it is, on a grey floor below a white ceiling.
        wall = HEIGHT // (2 + metres)
        rows = [(255, 255, 255)] * ((HEIGHT - wall) // 2) + [(200, 40, 40)] * wall
        rows += [(120, 120, 120)] * (HEIGHT - len(rows))
        return b"".join(bytes(color) * WIDTH for color in rows)


def tool(method, properties):
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    function = {"name": method.__name__, "description": method.__doc__, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [
    tool(Robot.turn, {"heading": {"enum": list(HEADINGS)}}),
    tool(Robot.go, {"metres": {"type": "integer", "minimum": 1, "maximum": 9}}),
]


LOOK = tool(Robot.look, {})


def result_fields(result):
    """The fields of a tool's message: a text, or a frame, which the daemon reads before the call returns."""
    if isinstance(result, str):
        return {"content": Variant("s", result)}, None
    memory = os.memfd_create("frame")
    os.write(memory, result)
    image = {
        "image": Variant("h", memory),
        "format": Variant("s", "rgb24"),
        "width": Variant("u", WIDTH),
        "height": Variant("u", HEIGHT),
    }
    return {"parts": Variant("aa{sv}", [image])}, memory


async def proxy(bus, path, interface):
    known = await bus.introspect(NAME, path)
    return bus.get_proxy_object(NAME, path, known).get_interface(f"{NAME}.{interface}")


async def answer(fd):
    """Prints a stream's text as it arrives, and returns the last frame."""
    reader, pipe = asyncio.StreamReader(), os.fdopen(fd, "rb")
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        while line := await reader.readline():
            frame = json.loads(line)
            if "done" in frame:
                return frame
            print(frame["text"], end="", flush=True)
    finally:
        transport.close()
    raise ConnectionError("the daemon died while it answered")


async def main():
    question = " ".join(sys.argv[1:]) or "Go to the east wall."
    bus = await MessageBus(bus_type=BusType.SYSTEM, negotiate_unix_fd=True).connect()
    manager = await proxy(bus, ROOT, "Manager")
    tools = TOOLS + [LOOK] * ("images" in await manager.get_features())
    opened = await manager.call_open_session(
        {
            "system": Variant("s", "You move a robot in a room of 9 by 9 metres."),
            "tools": Variant("s", json.dumps(tools)),
        }
    )
    session, robot = await proxy(bus, opened, "Session"), Robot()
    # The robot does one thing at a time, and one at least.
    options = {"parallel_tool_calls": Variant("b", False), "max_tokens": Variant("u", 120)}
    must = options | {"tool_choice": Variant("s", "required")}
    _, fd = await session.call_send(question, must)
    for left in reversed(range(ROUNDS)):
        last = await answer(fd)
        if last["finish_reason"] != "tool_calls":
            break
        said, frames = [], []
        for call in last["tool_calls"]:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            # Name and arguments fit the declaration, so no check is needed.
            result = getattr(robot, name)(**arguments)
            fields, frame = result_fields(result)
            print(f"{name} {arguments}: {result if frame is None else 'a frame'}")
            said.append(["tool", fields | {"tool_call_id": Variant("s", call["id"])}])
            frames += [] if frame is None else [frame]
        # The model gets the last round's results too, and then only answers.
        choice = {} if left else {"tool_choice": Variant("s", "none")}
        _, fd = await session.call_reply(said, options | choice)
        for frame in frames:
            os.close(frame)
    else:
        last = await answer(fd)
    print()
    print(f"the robot is at {robot.x}, {robot.y} and looks {robot.heading}: {last['finish_reason']}")


asyncio.run(main())

"""A planner: a plan that fits a JSON schema, then tools that carry it out, with asyncio and dbus-fast (pip install dbus-fast
jsonschema).

planner.py [TASK]: another library validates each plan and each call before the robot acts.
"""

import asyncio
import json
import sys

import jsonschema
from dbus_fast import DBusError
from ganglion import ERROR, Ganglion, expect, fields, message, plain

ROOMS = ("kitchen", "hall", "workshop")
THINGS = ("cup", "wrench", "parcel")
ROUNDS = 3

# Texts and arrays are bounded: a small model may otherwise fill max_tokens with one.
PLAN = {
    "type": "object",
    "properties": {
        "goal": {"type": "string", "maxLength": 60},
        "steps": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {
                            "action": {"const": "go"},
                            "room": {"enum": list(ROOMS)},
                            "metres_per_second": {"type": "number", "minimum": 0.1, "maximum": 1.5},
                        },
                        "required": ["action", "room", "metres_per_second"],
                        "additionalProperties": False,
                    },
                    {
                        "type": "object",
                        "properties": {"action": {"const": "pick_up"}, "thing": {"enum": list(THINGS)}},
                        "required": ["action", "thing"],
                        "additionalProperties": False,
                    },
                ]
            },
        },
    },
    "required": ["goal", "steps"],
    "additionalProperties": False,
}
# The daemon refuses this keyword. The error has its name and a JSON pointer to it.
UNSUPPORTED = {"type": "object", "properties": {"room": {"not": {"const": "kitchen"}}}}


class Robot:
    """A simulated robot."""

    def __init__(self):
        self.room, self.holds = "hall", None

    def go(self, room):
        """Goes to a room."""
        self.room = room
        return {"room": room}

    def pick_up(self, thing, gently=False):
        """Picks up a thing in the room where the robot is."""
        if self.holds:
            return {"error": f"the hand already holds the {self.holds}"}
        self.holds = thing
        return {"holds": thing}


def tool(method, required, **properties):
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    function = {"name": method.__name__, "description": method.__doc__, "parameters": parameters}
    return {"type": "function", "function": function}


TOOLS = [
    tool(Robot.go, ["room"], room={"enum": list(ROOMS)}),
    tool(Robot.pick_up, ["thing"], thing={"enum": list(THINGS)}, gently={"type": "boolean"}),
]
PARAMETERS = {one["function"]["name"]: one["function"]["parameters"] for one in TOOLS}


async def plan(ganglion, task, most):
    """A plan, or None where `most` tokens were not enough for it."""
    messages = [
        message("system", "You plan the work of a robot. You answer in JSON."),
        message("user", f"{task} Rooms: {', '.join(ROOMS)}. Things: {', '.join(THINGS)}."),
    ]
    options = fields(json_schema=json.dumps(PLAN), max_tokens=most)
    answer = await ganglion.answer(ganglion.manager.call_generate(messages, options))
    last = await answer.done()
    if answer.reason != "stop":
        # The text is only the beginning of a plan, and the last frame marks it as incomplete.
        expect(last.get("incomplete"), f"not marked as incomplete: {last}")
        return None
    made = json.loads(answer.text)
    jsonschema.validate(made, PLAN, jsonschema.Draft202012Validator)
    return made


async def refused(ganglion):
    """The error text for a schema with a keyword that the daemon does not support."""
    options = fields(json_schema=json.dumps(UNSUPPORTED), max_tokens=8)
    try:
        # A grammar is compiled after the call is accepted: the refusal is the call's error, or the answer's.
        answer = await ganglion.answer(
            ganglion.manager.call_generate([message("user", "Where?")], options)
        )
        await answer.done()
    except DBusError as error:
        expect(error.type == ERROR + "InvalidOption", f"{error.type}: {error}")
        expect("/properties/room/not" in error.text, f"no pointer to the keyword: {error}")
        return error.text
    raise SystemExit("FAILED: a keyword was ignored")


async def carry_out(ganglion, robot, made):
    """Lets the model call the robot's tools and returns the results to it, until it answers."""
    session = await ganglion.open_session(
        system="You move a robot by calling tools.",
        tools=json.dumps(TOOLS),
        parallel_tool_calls=False,
        max_tokens=96,
    )
    task = "Carry out this plan: " + json.dumps(made)
    answer = await ganglion.answer(session.call_send(task, fields(tool_choice="required")))
    await answer.done()
    calls = 0
    for left in reversed(range(ROUNDS)):
        if answer.reason != "tool_calls":
            break
        results = []
        for call in answer.last["tool_calls"]:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            # The model invents its calls. The robot carries out only declared ones.
            jsonschema.validate(arguments, PARAMETERS[name], jsonschema.Draft202012Validator)
            result = json.dumps(getattr(robot, name)(**arguments))
            print(f"{name}({arguments}) -> {result}", flush=True)
            results.append(message("tool", result, tool_call_id=call["id"]))
            calls += 1
        expect(len(results) == 1, f"more than one call at once: {answer.last}")
        # After the last round the model only answers.
        choice = "required" if left > 1 else "auto" if left else "none"
        answer = await ganglion.answer(session.call_reply(results, fields(tool_choice=choice)))
        await answer.done()
    expect(answer.reason in ("stop", "length"), f"no answer after the calls: {answer.last}")
    expect(calls >= 2, f"{calls} calls")
    said = plain(await session.call_messages())
    kept = [json.loads(one["tool_calls"]) for one in said if "tool_calls" in one]
    expect(sum(map(len, kept)) == calls == sum(one["role"] == "tool" for one in said), f"{said}")
    await session.call_close()
    return answer.text


async def main():
    task = " ".join(sys.argv[1:]) or "Bring the wrench from the workshop to the kitchen."
    ganglion, robot = await Ganglion().connect(), Robot()
    print("refused:", await refused(ganglion), flush=True)
    expect(await plan(ganglion, task, 5) is None, "a plan of five tokens")
    made = await plan(ganglion, task, 240)
    expect(made is not None, "no plan")
    print("plan:", json.dumps(made), flush=True)
    print("said:", (await carry_out(ganglion, robot, made)).strip())
    print(f"the robot is in the {robot.room} and holds {robot.holds or 'nothing'}")


asyncio.run(main())

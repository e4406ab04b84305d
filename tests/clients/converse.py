"""One client: streams, cancels by method and by closing, converses in a session, and reads errors."""

import asyncio
import os

from bus import CallError, PATH, answer, call, connect, frames, generate, get, until
from dbus_fast import Variant


async def streams(bus):
    request, fd = await generate(bus, "grüße 🌍", max_tokens=Variant("u", 5))
    text, last = await answer(fd)
    assert text == "sim: grüße 🌍 grüße 🌍", text
    assert last["finish_reason"] == "length" and last["usage"]["completion_tokens"] == 5, last
    assert await get(bus, request, "Request", "State") == "finished"


async def cancels_by_method(bus):
    request, fd = await generate(bus, "long")
    reasons = []
    async for frame in frames(fd):
        if frame["seq"] == 2:
            await call(bus, request, "Request", "Cancel")
        reasons.append(frame.get("finish_reason"))
    assert reasons[-1] == "cancelled" and len(reasons) < 200, reasons


async def cancels_by_closing(bus):
    request, fd = await generate(bus, "long")
    os.close(fd)

    async def finished():
        return await get(bus, request, "Request", "State") == "finished"

    await until(finished)
    result = await get(bus, request, "Request", "Result")
    assert result["finish_reason"].value == "cancelled", result


async def converses(bus):
    (session,) = await call(bus, PATH, "Manager", "OpenSession", "a{sv}", {})
    for turn in ("one two", "three"):
        options = {"max_tokens": Variant("u", 3)}
        _, fd = await call(bus, session, "Session", "Send", "sa{sv}", turn, options)
        text, _ = await answer(fd)
        assert text.startswith("sim: "), text
    (history,) = await call(bus, session, "Session", "History")
    assert [role for role, _ in history] == ["user", "assistant"] * 2, history
    assert await get(bus, session, "Session", "Turns") == 2

    stranger = await connect()
    try:
        await call(stranger, session, "Session", "History")
    except CallError as error:
        assert error.args[0] == "org.freedesktop.DBus.Error.UnknownObject", error
    else:
        raise AssertionError("a stranger read the history")
    stranger.disconnect()
    await call(bus, session, "Session", "Close")


async def reads_errors(bus):
    try:
        await generate(bus, "hello", temprature=Variant("d", 1.0))
    except CallError as error:
        name, text = error.args
        assert name == "org.ganglion.Llm1.Error.InvalidOption" and "temprature" in text, error
    else:
        raise AssertionError("an unknown option was ignored")


async def main():
    bus = await connect()
    for step in (streams, cancels_by_method, cancels_by_closing, converses, reads_errors):
        await step(bus)
        print(step.__name__, "ok")


asyncio.run(main())

"""A client with asyncio and dbus-fast (pip install dbus-fast). Its event loop never blocks on the daemon.

client.py generate | session | cancel | complete | signals | reconnect
"""

import asyncio
import json
import os
import sys

from dbus_fast import BusType, DBusError, Variant
from dbus_fast.aio import MessageBus

NAME, ROOT = "org.ganglion.Llm1", "/org/ganglion/Llm1"


class Ganglion:
    """The daemon, over one connection."""

    async def connect(self):
        # Without negotiate_unix_fd there are no pipes.
        self.bus = await MessageBus(bus_type=BusType.SYSTEM, negotiate_unix_fd=True).connect()
        self.manager = await self.proxy(ROOT, "Manager")
        return self

    async def proxy(self, path, interface):
        known = await self.bus.introspect(NAME, path)
        return self.bus.get_proxy_object(NAME, path, known).get_interface(f"{NAME}.{interface}")


def user(text):
    return [["user", {"content": Variant("s", text)}]]


def tokens(most):
    return {"max_tokens": Variant("u", most)}


async def frames(fd):
    """Yields the frames of a stream as they arrive. Owns the descriptor and closes it at the end."""
    reader, pipe = asyncio.StreamReader(), os.fdopen(fd, "rb")
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        while line := await reader.readline():
            yield json.loads(line)
    finally:
        transport.close()


async def show(fd):
    """Prints an answer as it arrives, and returns its last frame."""
    async for frame in frames(fd):
        if "done" in frame:
            print()
            return frame
        print(frame["text"], end="", flush=True)
    raise ConnectionError("the daemon died while it answered")


async def generate(ganglion):
    _, fd = await ganglion.manager.call_generate(user("hello"), tokens(20))
    last = await show(fd)
    assert last["finish_reason"] in ("stop", "length"), last
    print(last["usage"]["tokens_per_second"], "tokens/s, seed", last["usage"]["seed"])


async def session(ganglion):
    path = await ganglion.manager.call_open_session({"system": Variant("s", "Be brief.")})
    talk = await ganglion.proxy(path, "Session")
    for text in ("hello", "and again"):
        _, fd = await talk.call_send(text, tokens(10))
        await show(fd)
    roles = [role for role, _ in await talk.call_messages()]
    assert roles == ["system"] + ["user", "assistant"] * 2, roles
    await talk.call_close()


async def cancel(ganglion):
    path, fd = await ganglion.manager.call_generate(user("hello"), tokens(400))
    request = await ganglion.proxy(path, "Request")
    async for frame in frames(fd):
        if frame["seq"] == 0:
            await request.call_cancel()
        last = frame
    assert last["finish_reason"] == "cancelled", last


async def complete(ganglion):
    text, info = await ganglion.manager.call_complete("hello", tokens(10))
    print(text, info["finish_reason"].value)


async def signals(ganglion):
    path = await ganglion.manager.call_submit(
        user("hello"), tokens(20) | {"signals": Variant("b", True)}
    )
    request, ended = await ganglion.proxy(path, "Request"), asyncio.Event()
    request.on_delta(lambda seq, text: print(text, end="", flush=True))
    request.on_finished(lambda reason, info: ended.set())
    # The request may have ended before the subscription.
    if not await request.get_result():
        await ended.wait()
    print()


async def reconnect(ganglion):
    """A restarted daemon forgets unnamed sessions; the conversation continues from this program's copy."""
    loop = asyncio.get_running_loop()
    restarted, known = loop.create_future(), await ganglion.bus.introspect(
        "org.freedesktop.DBus", "/org/freedesktop/DBus"
    )
    dbus = ganglion.bus.get_proxy_object("org.freedesktop.DBus", "/org/freedesktop/DBus", known)

    def changed(name, _old, new):
        if name == NAME and new and not restarted.done():
            restarted.set_result(new)

    dbus.get_interface("org.freedesktop.DBus").on_name_owner_changed(changed)
    talk = await ganglion.proxy(await ganglion.manager.call_open_session({}), "Session")
    _, fd = await talk.call_send("hello", tokens(10))
    await show(fd)
    kept = await talk.call_messages()
    print("restart the daemon", flush=True)
    await restarted
    try:
        await talk.call_send("and again", {})
        raise AssertionError("the session outlived its daemon")
    except DBusError as error:
        assert error.type == "org.freedesktop.DBus.Error.UnknownObject", error.type
    # A call waits for the model; the program need not.
    _, fd = await ganglion.manager.call_generate(kept + user("and again"), tokens(10))
    assert (await show(fd))["finish_reason"] in ("stop", "length")


async def main():
    verbs = (generate, session, cancel, complete, signals, reconnect)
    verb = {verb.__name__: verb for verb in verbs}[sys.argv[1]]
    await verb(await Ganglion().connect())


asyncio.run(main())

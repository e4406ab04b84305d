"""The daemon over one connection, for the programs in this folder, with asyncio and dbus-fast (pip install dbus-fast).

Nothing here waits for the daemon in a way that stops the program's loop.
"""

import asyncio
import json
import os
import time

from dbus_fast import BusType, DBusError, Variant
from dbus_fast.aio import MessageBus

NAME, ROOT = "org.ganglion.Llm1", "/org/ganglion/Llm1"
ERROR = f"{NAME}.Error."


def fields(**values):
    """Options as an a{sv}: numbers, truths and texts as they are, a list as texts."""
    kinds = {bool: "b", int: "u", float: "d", str: "s", list: "as"}
    return {name: Variant(kinds[type(value)], value) for name, value in values.items()}


def message(role, content, **more):
    """A message of a conversation."""
    return [role, fields(content=content, **more)]


def plain(messages):
    """Messages of the bus as dictionaries without variants."""
    return [
        {"role": role} | {name: value.value for name, value in parts.items()}
        for role, parts in messages
    ]


class Lost(ConnectionError):
    """The daemon ended before the answer did."""


class Ganglion:
    """The daemon, over one connection."""

    async def connect(self):
        # The bus passes pipes only to connections that negotiate file descriptors.
        self.bus = await MessageBus(bus_type=BusType.SYSTEM, negotiate_unix_fd=True).connect()
        self.known = {}
        self.manager = await self.proxy(ROOT, "Manager")
        return self

    async def proxy(self, path, interface):
        """An object of the daemon. Only the first of an interface is introspected."""
        if interface not in self.known:
            self.known[interface] = await self.bus.introspect(NAME, path)
        known = self.known[interface]
        return self.bus.get_proxy_object(NAME, path, known).get_interface(f"{NAME}.{interface}")

    async def open_session(self, **options):
        return await self.proxy(await self.manager.call_open_session(fields(**options)), "Session")

    async def answer(self, call):
        """The answer to a call of Generate, Send or Reply."""
        asked = time.monotonic()
        return Answer(self, asked, *await call)

    def disconnect(self):
        """Leaves the bus, which ends requests and lets sessions go."""
        self.bus.disconnect()


class Answer:
    """An answer: `async for` gives the pieces of its text as they come; `done` waits for its end."""

    def __init__(self, ganglion, asked, request, fd):
        self.ganglion, self.asked, self.request = ganglion, asked, request
        self.text, self.last, self.first_token = "", None, None
        self.frames = self.read(fd)

    async def read(self, fd):
        """The frames of the pipe. It owns the descriptor, and closes it at the end."""
        reader, pipe = asyncio.StreamReader(), os.fdopen(fd, "rb")
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            while line := await reader.readline():
                yield json.loads(line)
        finally:
            transport.close()

    async def __aiter__(self):
        async for frame in self.frames:
            if "done" in frame:
                self.last = frame
            elif piece := frame["text"]:
                if self.first_token is None:
                    self.first_token = time.monotonic() - self.asked
                self.text += piece
                yield piece
        if self.last is None:
            raise Lost("the pipe ended without a last frame")

    async def done(self):
        """The last frame. An answer that failed raises its error, as a refused call does."""
        async for _ in self:
            pass
        if self.reason == "error":
            raise DBusError(self.last["error"], self.last.get("message", ""))
        return self.last

    async def cancel(self):
        """Ends the answer. The text so far still arrives, and then the last frame."""
        request = await self.ganglion.proxy(self.request, "Request")
        await request.call_cancel()

    @property
    def reason(self):
        return self.last["finish_reason"]

    @property
    def usage(self):
        return self.last["usage"]


def percentile(values, percent):
    """A percentile of the values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


def expect(holds, what):
    """Ends the program with status 1 where something does not hold."""
    if not holds:
        raise SystemExit(f"FAILED: {what}")

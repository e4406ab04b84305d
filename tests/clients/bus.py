"""What the clients share: a connection, a call, and the frames of a stream."""

import asyncio
import json
import os
import sys

from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

NAME = "org.ganglion.Llm1"
PATH = "/org/ganglion/Llm1"


class CallError(Exception):
    """A D-Bus error: its name, and its text."""


async def connect():
    return await MessageBus(bus_address=sys.argv[1], negotiate_unix_fd=True).connect()


async def call(bus, path, interface, member, signature="", *body):
    reply = await bus.call(
        Message(
            destination=NAME,
            path=path,
            interface=f"{NAME}.{interface}",
            member=member,
            signature=signature,
            body=list(body),
        )
    )
    if reply.message_type == MessageType.ERROR:
        raise CallError(reply.error_name, *reply.body)
    return [reply.unix_fds[value] if kind == "h" else value
            for kind, value in zip(kinds(reply.signature), reply.body)]


def kinds(signature):
    """The signature's first letters: enough to tell a file descriptor."""
    return list(signature) if set(signature) <= set("osh") else [signature]


async def generate(bus, text, **options):
    messages = [["user", {"content": Variant("s", text)}]]
    return await call(bus, PATH, "Manager", "Generate", "a(sa{sv})a{sv}", messages, options)


async def get(bus, path, interface, name):
    reply = await bus.call(
        Message(
            destination=NAME,
            path=path,
            interface="org.freedesktop.DBus.Properties",
            member="Get",
            signature="ss",
            body=[f"{NAME}.{interface}", name],
        )
    )
    if reply.message_type == MessageType.ERROR:
        raise CallError(reply.error_name, *reply.body)
    return reply.body[0].value


async def frames(fd):
    """The frames of a stream, as they come."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(reader)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(fd, "rb"))
    while line := await reader.readline():
        yield json.loads(line)


async def answer(fd):
    """The whole text, and the last frame."""
    text, last = "", None
    async for frame in frames(fd):
        assert last is None, f"{frame} follows the last frame"
        if frame.get("done"):
            last = frame
        else:
            text += frame["text"]
    assert last is not None, "the stream ended without a last frame"
    return text, last


async def until(check):
    async def wait():
        while not await check():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), 60)

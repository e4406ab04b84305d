"""Eight clients at once, each with its own words, and one that leaves in the middle."""

import asyncio

from bus import PATH, answer, call, connect, generate, get, until


async def client(number):
    bus = await connect()
    for _ in range(3):
        _, fd = await generate(bus, f"word{number}")
        text, last = await answer(fd)
        assert text == "sim:" + f" word{number}" * 49, text
        assert last["finish_reason"] == "stop", last


async def leaver():
    bus = await connect()
    await call(bus, PATH, "Manager", "OpenSession", "a{sv}", {})
    bus.disconnect()


async def main():
    await asyncio.gather(leaver(), *(client(number) for number in range(8)))
    bus = await connect()

    async def nothing_left():
        return await get(bus, PATH, "Manager", "Sessions") == 0

    await until(nothing_left)


asyncio.run(main())

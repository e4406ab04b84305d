"""A companion: one conversation of hundreds of turns, longer than the model's context, that survives restarts of the daemon,
with asyncio and dbus-fast (pip install dbus-fast).

companion.py [TURNS [RESTARTS [PAUSE]]]: talks for TURNS turns with PAUSE seconds between them. It fails if the daemon was
restarted less than RESTARTS times. The session has a name, so that the daemon keeps it. Its oldest turns are dropped when the
context is full.
"""

import asyncio
import sys

from dbus_fast import DBusError
from ganglion import ERROR, Ganglion, Lost, expect, percentile, plain

SESSION = "companion"
SYSTEM = "You are a friendly companion. You answer in a few words."
TOPICS = ("the weather", "a song", "the garden", "an old friend", "breakfast", "a film", "the sea", "a walk")
# The daemon is gone, starts, or stops.
AWAY = {
    "org.freedesktop.DBus.Error." + name
    for name in ("NoReply", "ServiceUnknown", "NameHasNoOwner", "UnknownObject", "Disconnected")
} | {ERROR + "NotReady", ERROR + "Cancelled"}


class Companion:
    def __init__(self, ganglion):
        self.ganglion, self.session = ganglion, None
        # Turns that were dropped, and how often the daemon was lost.
        self.dropped = self.reconnects = 0
        self.first_tokens = []

    async def open(self):
        """Opens the session as it was left, as soon as there is a daemon with a model."""
        while True:
            try:
                self.session = await self.ganglion.open_session(
                    name=SESSION, system=SYSTEM, context_overflow="truncate_oldest", max_tokens=8
                )
                return
            except DBusError as error:
                if error.type not in AWAY:
                    raise
                await asyncio.sleep(0.2)

    async def say(self, text):
        """One turn, however often the daemon is restarted meanwhile."""
        while True:
            try:
                return await self.turn(text)
            except (DBusError, Lost) as error:
                if isinstance(error, DBusError) and error.type not in AWAY:
                    raise
                print(f"lost the daemon ({error}); opening the session again", flush=True)
            self.reconnects += 1
            await self.open()
            # The turn may have been kept although its end did not arrive here.
            if await self.kept(text):
                return None

    async def turn(self, text):
        answer = await self.ganglion.answer(self.session.call_send(text, {}))
        last = await answer.done()
        if answer.reason == "cancelled":
            # Not by this program: the daemon stops.
            raise Lost("the answer was cancelled")
        expect(answer.reason in ("stop", "length"), f"{last}")
        self.dropped += answer.usage.get("dropped_turns", 0)
        if answer.first_token is not None:
            self.first_tokens.append(answer.first_token * 1e3)
        return answer.text

    async def kept(self, text):
        """Whether the session has this turn already. A partial answer is rewound."""
        said = plain(await self.session.call_messages())
        if len(said) < 3 or said[-2]["content"] != text:
            return False
        if said[-1].get("partial"):
            await self.session.call_rewind(1)
            return False
        return True

    async def check(self, turn, text, answer):
        """Checks that the session ends with this turn and has no gap. Returns the number of dropped turns."""
        said = plain(await self.session.call_messages())
        roles = [one["role"] for one in said]
        expect(roles == ["system"] + ["user", "assistant"] * (len(roles) // 2), f"turn {turn}: {roles}")
        expect(said[0]["content"] == SYSTEM, f"turn {turn}: another system message: {said[0]}")
        expect(said[-2]["content"] == text, f"turn {turn}: {said[-2]}")
        expect(answer is None or said[-1]["content"] == answer, f"turn {turn}: {said[-1]} is not {answer!r}")
        users = [one["content"] for one in said if one["role"] == "user"]
        first = turn + 1 - len(users)
        expect(users == [question(one) for one in range(first, turn + 1)], f"turn {turn}: turns are missing: {users}")
        return first


def question(turn):
    return f"{turn}: what about {TOPICS[turn % len(TOPICS)]}?"


async def main():
    given = dict(enumerate(sys.argv))
    turns, restarts, pause = int(given.get(1, 300)), int(given.get(2, 0)), float(given.get(3, 0.1))
    ganglion = await Ganglion().connect()
    if SESSION in await ganglion.manager.call_list_sessions():
        await ganglion.manager.call_delete_session(SESSION)
    companion = Companion(ganglion)
    await companion.open()
    gone = 0
    for turn in range(turns):
        answer = await companion.say(question(turn))
        gone = await companion.check(turn, question(turn), answer)
        if turn % 25 == 0:
            print(f"turn {turn}, {gone} dropped", flush=True)
        # The user thinks. The daemon can drop turns and prefill in this time.
        await asyncio.sleep(pause)
    times = companion.first_tokens
    print(
        f"{turns} turns, {gone} dropped, {companion.reconnects} reconnects; first token p50 {percentile(times, 50):.0f} ms,"
        f" p99 {percentile(times, 99):.0f} ms, max {max(times):.0f} ms"
    )
    expect(companion.first_tokens and companion.dropped <= gone, f"{companion.dropped} turns were reported as dropped, {gone} are gone")
    expect(companion.reconnects >= restarts, f"the daemon was lost {companion.reconnects} times, not {restarts}")
    await companion.session.call_close()
    await ganglion.manager.call_delete_session(SESSION)


asyncio.run(main())

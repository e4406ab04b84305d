"""A fleet: one program for each robot, all on one daemon, with asyncio and dbus-fast (pip install dbus-fast).

fleet.py              the supervisor: starts the robots' programs, kills one, freezes one, and takes over their sessions
fleet.py robot NAME   the program of one robot

Each robot has a session with a name, which belongs to the user and outlives its program. Summaries of the robots' logs are
requests of priority "background", which wait for the robots' own.
"""

import asyncio
import signal
import sys

from dbus_fast import DBusError
from ganglion import ERROR, Ganglion, expect, fields, message, percentile, plain

ROBOTS = ("fleet-axle", "fleet-bolt", "fleet-cog")
PLACES = ("the charging station", "the loading dock", "the long corridor", "the lift")
SUMMARIES = 6
DEAD, FROZEN = "fleet-bolt", "fleet-cog"


def system(name):
    return f"You are the robot {name}. You answer in one sentence."


async def open_session(ganglion, name, **options):
    return await ganglion.open_session(name=name, system=system(name), max_tokens=16, **options)


# The program of one robot.


async def robot(name):
    ganglion = await Ganglion().connect()
    session = await open_session(ganglion, name)
    for place in PLACES:
        answer = await ganglion.answer(session.call_send(f"You are at {place}. What do you do?", {}))
        await answer.done()
        expect(answer.reason in ("stop", "length"), f"{name}: {answer.last}")
        # The supervisor reads this line: the turn is on the disk.
        print(f"turn {answer.first_token * 1e3:.1f}", flush=True)
    await session.call_close()


# The supervisor.


class Program:
    """A robot's program and its reports."""

    def __init__(self, name):
        self.name, self.first_tokens = name, []

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "robot", self.name, stdout=asyncio.subprocess.PIPE
        )
        return self

    async def turns(self, most):
        """Waits until the program has reported `most` turns or has ended."""
        while len(self.first_tokens) < most and (line := await self.process.stdout.readline()):
            self.first_tokens.append(float(line.split()[1]))
        return len(self.first_tokens)

    async def finish(self):
        await self.turns(len(PLACES))
        status = await self.process.wait()
        expect(status == 0 and len(self.first_tokens) == len(PLACES), f"{self.name} failed with {status}")


async def take_over(ganglion, program):
    """Continues the conversation of a program that is dead or hangs."""
    try:
        session = await open_session(ganglion, program.name)
    except DBusError as error:
        # A connection still holds the session: that of a program that hangs, or of one whose end the bus has yet to notice.
        expect(error.type == ERROR + "Busy", f"{error.type}: {error}")
        session = await open_session(ganglion, program.name, take=True)
    done, said = await session.get_turns(), plain(await session.call_messages())
    expect(done >= len(program.first_tokens), f"{program.name}: {done} turns of {len(program.first_tokens)}")
    roles = [one["role"] for one in said]
    expect(roles == ["system"] + ["user", "assistant"] * done, f"{program.name}: {roles}")
    # An answer that the end of its program cut off is asked for again.
    if said[-1].get("partial"):
        await session.call_rewind(1)
        done -= 1
    print(f"{program.name}: taken over after {done} turns", flush=True)
    for place in PLACES[done:]:
        answer = await ganglion.answer(session.call_send(f"You are at {place}. What do you do?", {}))
        await answer.done()
        expect(answer.reason in ("stop", "length"), f"{program.name}: {answer.last}")
    expect(await session.get_turns() == len(PLACES), f"{program.name} lost turns")
    await session.call_close()


async def killed(ganglion, program):
    """A program that dies in the middle of an answer."""
    await program.turns(2)
    program.process.kill()
    await program.process.wait()
    await take_over(ganglion, program)


async def frozen(ganglion, program):
    """A program that stops without an end: it still holds its session, until that is taken."""
    await program.turns(1)
    program.process.send_signal(signal.SIGSTOP)
    await take_over(ganglion, program)
    program.process.kill()
    await program.process.wait()


async def summarize(ganglion, number):
    """Queues a summary with priority "background"."""
    log = "; ".join(f"{place}: battery at {90 - 7 * number - at} percent" for at, place in enumerate(PLACES))
    text = [message("user", f"Summarize the log of a robot in one sentence. {log}")]
    options = fields(priority="background", max_tokens=24)
    return await ganglion.answer(ganglion.manager.call_generate(text, options))


async def finish(answer, what, ended):
    """Reads an answer to its end, and notes when it ended."""
    await answer.done()
    expect(answer.reason in ("stop", "length") and answer.text, f"{what}: {answer.last}")
    ended.append(what)
    return answer.first_token * 1e3


async def forget(ganglion):
    """Deletes the sessions of an earlier run."""
    for name in await ganglion.manager.call_list_sessions():
        if name in ROBOTS:
            await ganglion.manager.call_delete_session(name)


async def main():
    ganglion = await Ganglion().connect()
    await forget(ganglion)
    # A normal request that arrives after all of the summaries does not wait for the last of them.
    asked, ended = [await summarize(ganglion, number) for number in range(SUMMARIES)], []
    text = [message("user", "Which robot is the nearest?")]
    urgent = await ganglion.answer(ganglion.manager.call_generate(text, fields(max_tokens=8)))
    summaries = [asyncio.create_task(finish(one, "background", ended)) for one in asked]
    await finish(urgent, "normal", ended)

    programs = {name: await Program(name).start() for name in ROBOTS}
    await asyncio.gather(
        killed(ganglion, programs[DEAD]),
        frozen(ganglion, programs[FROZEN]),
        *(program.finish() for name, program in programs.items() if name not in (DEAD, FROZEN)),
    )
    background = await asyncio.gather(*summaries)
    expect(ended[-1] == "background", f"a normal request waited for summaries: {ended}")
    normal = [one for program in programs.values() for one in program.first_tokens]
    for what, times in (("robots", normal), ("summaries", background)):
        print(f"{what}: first token p50 {percentile(times, 50):.0f} ms, max {max(times):.0f} ms, of {len(times)}")

    kept = await ganglion.manager.call_list_sessions()
    for name in ROBOTS:
        expect(kept[name]["turns"].value == len(PLACES), f"{name}: {kept[name]}")
        expect("holder" not in kept[name], f"{name} is still held: {kept[name]}")
    await forget(ganglion)


asyncio.run(robot(sys.argv[2]) if sys.argv[1:2] == ["robot"] else main())

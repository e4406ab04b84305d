"""A voice loop: speech in, spoken sentences out, with asyncio and dbus-fast (pip install dbus-fast).

voice.py: an ear and a mouth are simulated; a robot has a recognizer and a synthesizer in their places.

The prompt is prefilled while the user speaks, so that the answer begins soon after the last word. The answer is spoken
sentence by sentence while it is made. A user who speaks meanwhile ends it (barge-in).
"""

import asyncio
import re

from dbus_fast import DBusError
from ganglion import ERROR, Ganglion, expect, plain

SYSTEM = "You are the voice of a small robot. You answer in short sentences."
# The user's speech, and whether the user interrupts the answer.
SPEECH = [
    ("Hello robot, please tell me in three sentences what you can see from the top of a hill in the summer.", False),
    ("Tell me a long story about a robot that lives in a lighthouse and looks for ships in the night.", True),
    ("Stop. I would rather like to know which colours a traffic light has, and what they mean.", False),
]
# A sentence ends with its mark and white space: "3.5 metres" is not cut.
END = re.compile(r"[.!?][\"')]*\s+|\n+")


class Ear:
    """A simulated recognizer: words arrive at the speed of speech."""

    def __init__(self):
        self.voice = asyncio.Event()

    async def hear(self, speech):
        """The text understood so far, a few words longer each time."""
        words = speech.split()
        for count in range(4, len(words) + 4, 4):
            await asyncio.sleep(0.4)
            yield " ".join(words[:count])


class Mouth:
    """A simulated synthesizer: speaks one sentence after the other, until it is silenced."""

    def __init__(self):
        self.queue, self.spoken, self.begun = asyncio.Queue(), [], asyncio.Event()
        self.task = asyncio.create_task(self.speak())

    async def speak(self):
        while sentence := await self.queue.get():
            self.spoken.append(sentence)
            self.begun.set()
            print(f"  robot: {sentence.strip()}", flush=True)
            await asyncio.sleep(0.02 * len(sentence.split()))

    def say(self, sentence):
        self.queue.put_nowait(sentence)

    async def finish(self):
        self.say("")
        await self.task

    def silence(self):
        self.task.cancel()


async def sentences(pieces):
    """Cuts text that arrives in pieces into sentences."""
    text = ""
    async for piece in pieces:
        text += piece
        while end := END.search(text):
            yield text[: end.end()]
            text = text[end.end() :]
    if text:
        yield text


class Voice:
    def __init__(self, ganglion, session):
        self.ganglion, self.session, self.ear = ganglion, session, Ear()

    async def listen(self, speech):
        """Prefills the text so far. The daemon does this with the lowest priority: a turn preempts it."""
        heard = ""
        async for heard in self.ear.hear(speech):
            try:
                await self.session.call_prewarm(heard)
            except DBusError as error:
                # It only saves time: a full queue is no reason to stop listening.
                if error.type not in (ERROR + "Busy", ERROR + "QuotaExceeded"):
                    raise
        return heard

    async def say(self, answer, mouth):
        """Speaks an answer while it is made."""
        cut = []
        async for sentence in sentences(answer):
            cut.append(sentence)
            mouth.say(sentence)
        return cut

    async def turn(self, speech, interrupted):
        print(f"  user:  {speech}", flush=True)
        heard, mouth = await self.listen(speech), Mouth()
        self.ear.voice.clear()
        interrupting = asyncio.create_task(self.speak_against(mouth)) if interrupted else None
        answer = await self.ganglion.answer(self.session.call_send(heard, {}))
        saying = asyncio.create_task(self.say(answer, mouth))
        hearing = asyncio.create_task(self.ear.voice.wait())
        await asyncio.wait({saying, hearing}, return_when=asyncio.FIRST_COMPLETED)
        if hearing.done():
            mouth.silence()
            await answer.cancel()
            print("  (interrupted)", flush=True)
        else:
            hearing.cancel()
        cut = await saying
        if interrupting:
            await interrupting
        else:
            await mouth.finish()
        return answer, cut, mouth.spoken

    async def speak_against(self, mouth):
        """Simulates a user who interrupts as soon as the robot speaks."""
        await mouth.begun.wait()
        self.ear.voice.set()


async def main():
    ganglion = await Ganglion().connect()
    session = await ganglion.open_session(system=SYSTEM, max_tokens=150)
    # The session's beginning, before anyone has said a word.
    await session.call_prewarm("")
    voice = Voice(ganglion, session)
    for speech, interrupted in SPEECH:
        answer, cut, spoken = await voice.turn(speech, interrupted)
        usage = answer.usage
        computed = usage["prompt_tokens"] - usage["cached_tokens"]
        print(
            f"first token {answer.first_token * 1e3:.0f} ms; {computed} of {usage['prompt_tokens']} tokens of the prompt"
            f" were left to compute; {answer.reason}",
            flush=True,
        )
        # These checks hold at every speed of the machine.
        expect("".join(cut) == answer.text and answer.text.strip(), f"text was lost: {cut} {answer.text!r}")
        expect(all(END.search(one) for one in cut[:-1]), f"no sentences: {cut}")
        expect(computed < len(speech.split()), f"nothing was prefilled while the user spoke: {usage}")
        last = plain(await session.call_messages())[-1]
        expect(last["content"] == answer.text, f"the session has another answer: {last}")
        if interrupted:
            expect(answer.reason == "cancelled" and last.get("partial"), f"not interrupted: {answer.last} {last}")
            expect(len(spoken) < 3, f"spoken after the interruption: {spoken}")
        else:
            expect(answer.reason in ("stop", "length") and spoken == cut, f"{answer.last} {spoken}")
    expect(await session.get_turns() == len(SPEECH), "turns are missing")
    await session.call_close()


asyncio.run(main())

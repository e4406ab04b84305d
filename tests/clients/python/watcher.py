"""A watcher: looks at the frames of a camera, asks a model with images what they show, and acts on the answer, with asyncio
and dbus-fast (pip install dbus-fast).

watcher.py /dev/video0 [ROUNDS]                        frames of a V4L2 device (YUYV, 640 x 480)
watcher.py FRAMES.yuv [ROUNDS [WIDTH HEIGHT]]          a file of raw YUYV frames, one after the other

The answer fits a JSON schema, so the robot needs no parser. Each frame is a request of its own: a frame that comes while the
model still answers is skipped.
"""

import asyncio
import ctypes
import fcntl
import json
import mmap
import os
import stat
import sys

from dbus_fast import Variant
from ganglion import Ganglion, expect, fields

SYSTEM = "You watch the path of a robot. You answer in JSON."
QUESTION = "Is the path free? What stands on it, and where?"
SEEN = {
    "type": "object",
    "properties": {
        "free": {"type": "boolean"},
        "obstacle": {"enum": ["none", "person", "animal", "object", "wall"]},
        "side": {"enum": ["left", "middle", "right"]},
    },
    "required": ["free", "obstacle", "side"],
    "additionalProperties": False,
}
# The pixels of a frame decide how many tokens it takes: fewer are answered sooner.
MOST_TOKENS = 256


class Recording:
    """A file of raw frames."""

    def __init__(self, path, width, height):
        self.file, self.size = open(path, "rb"), (width, height)

    def frame(self):
        """The next frame, or None at the end."""
        width, height = self.size
        frame = self.file.read(2 * width * height)
        return frame if len(frame) == 2 * width * height else None


class Buffer(ctypes.Structure):
    """struct v4l2_buffer of a 64-bit kernel."""

    _fields_ = [
        (name, ctypes.c_uint32) for name in ("index", "type", "used", "flags", "field")
    ] + [
        ("timestamp", ctypes.c_int64 * 2),
        ("timecode", ctypes.c_uint32 * 4),
        ("sequence", ctypes.c_uint32),
        ("memory", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("length", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32 * 2),
    ]


class Camera:
    """A V4L2 device that captures YUYV."""

    CAPTURE, MMAP, YUYV = 1, 1, int.from_bytes(b"YUYV", "little")
    SET_FORMAT, REQUEST, QUERY = 0xC0D05605, 0xC0145608, 0xC0585609
    QUEUE, DEQUEUE, START = 0xC058560F, 0xC0585611, 0x40045612

    def __init__(self, path, width, height):
        self.device = os.open(path, os.O_RDWR)
        # struct v4l2_format: the type, then at byte 8 width, height, pixel format, field, bytes of a row.
        form = bytearray(208)
        form[0:4] = self.CAPTURE.to_bytes(4, "little")
        for at, value in enumerate((width, height, self.YUYV, 1)):
            form[8 + 4 * at : 12 + 4 * at] = value.to_bytes(4, "little")
        fcntl.ioctl(self.device, self.SET_FORMAT, form)
        got = [int.from_bytes(form[8 + 4 * at : 12 + 4 * at], "little") for at in range(3)]
        expect(got[2] == self.YUYV, f"{path} captures no YUYV")
        self.size = (got[0], got[1])
        request = bytearray(20)
        for at, value in enumerate((2, self.CAPTURE, self.MMAP)):
            request[4 * at : 4 * at + 4] = value.to_bytes(4, "little")
        fcntl.ioctl(self.device, self.REQUEST, request)
        self.maps = []
        for index in range(int.from_bytes(request[0:4], "little")):
            buffer = self.buffer(index)
            fcntl.ioctl(self.device, self.QUERY, buffer)
            self.maps.append(
                mmap.mmap(self.device, buffer.length, mmap.MAP_SHARED, offset=buffer.offset & 0xFFFFFFFF)
            )
            fcntl.ioctl(self.device, self.QUEUE, buffer)
        fcntl.ioctl(self.device, self.START, self.CAPTURE.to_bytes(4, "little"))

    def buffer(self, index=0):
        return Buffer(index=index, type=self.CAPTURE, memory=self.MMAP)

    def frame(self):
        """The newest frame. It waits for one."""
        buffer = self.buffer()
        fcntl.ioctl(self.device, self.DEQUEUE, buffer)
        width, height = self.size
        frame = self.maps[buffer.index][: 2 * width * height]
        fcntl.ioctl(self.device, self.QUEUE, buffer)
        return frame


def shows(frame, size, question):
    """A message with a frame of a camera before a text. The daemon reads the memory before the call returns."""
    memory = os.memfd_create("frame", os.MFD_ALLOW_SEALING)
    os.write(memory, frame)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE)
    width, height = size
    image = {"image": Variant("h", memory)} | fields(
        format="yuyv", width=width, height=height, color="bt601", range="limited", max_tokens=MOST_TOKENS
    )
    return ["user", {"parts": Variant("aa{sv}", [image, fields(text=question)])}], memory


async def look(ganglion, frame, size):
    """What the model sees on a frame."""
    shown, memory = shows(frame, size, QUESTION)
    messages = [["system", fields(content=SYSTEM)], shown]
    options = fields(json_schema=json.dumps(SEEN), max_tokens=160, temperature=0.0)
    try:
        answer = await ganglion.answer(ganglion.manager.call_generate(messages, options))
    finally:
        os.close(memory)
    await answer.done()
    expect(answer.reason == "stop", f"no whole answer: {answer.last}")
    return json.loads(answer.text), answer


def act(seen):
    """What the robot does."""
    if seen["free"] or seen["obstacle"] == "none":
        return "goes on"
    if seen["obstacle"] in ("person", "animal"):
        return "stops"
    return {"left": "steers right", "right": "steers left"}.get(seen["side"], "stops")


async def main():
    source, rounds, width, height = (sys.argv[1:] + [None] * 4)[:4]
    expect(source, "name a device or a file of frames")
    size = (int(width or 640), int(height or 480))
    is_device = stat.S_ISCHR(os.stat(source).st_mode)
    camera = (Camera if is_device else Recording)(source, *size)
    ganglion = await Ganglion().connect()
    features = await ganglion.manager.get_features()
    expect("images" in features, "the model has no vision tower: set model.path to one that has")
    for number in range(int(rounds or 5)):
        frame = await asyncio.to_thread(camera.frame)
        if frame is None:
            break
        seen, answer = await look(ganglion, frame, camera.size)
        took = f"{answer.usage['prompt_tokens']} tokens, first answer after {answer.first_token:.2f} s"
        print(f"frame {number}: {seen} -> the robot {act(seen)} ({took})", flush=True)


asyncio.run(main())

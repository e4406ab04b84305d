"""Renders a chat template in the daemon's template process (`gangliond --run-chat-template`, src/model/chat/frame.rs)."""
import json
import struct
import subprocess
from pathlib import Path

KINDS = ("Source", "Variables", "Text", "Refused", "Wrong", "Stopped")


class Renderer:
    """A process with one template. `answer` is its result for the source."""

    def __init__(self, bin_folder: Path, source: str):
        command = [bin_folder / "gangliond", "--run-chat-template"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, **pipes)
        self.answer = self.send(0, source)

    def send(self, kind: int, text: str) -> tuple[str, str]:
        body = text.encode()
        self.process.stdin.write(struct.pack("<BI", kind, len(body)) + body)
        self.process.stdin.flush()
        head = self.process.stdout.read(5)
        if len(head) < 5:
            return "Died", str(self.process.wait())
        kind, length = struct.unpack("<BI", head)
        return KINDS[kind], self.process.stdout.read(length).decode()

    def render(self, variables: dict) -> tuple[str, str]:
        return self.send(1, json.dumps(variables, ensure_ascii=False))

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def render(bin_folder: Path, source: str, variables: dict) -> tuple[str, str]:
    """Returns the kind of the answer to a template's variables, and its text."""
    renderer = Renderer(bin_folder, source)
    seen = renderer.answer
    if seen[0] == "Text":
        seen = renderer.render(variables)
    renderer.close()
    return seen

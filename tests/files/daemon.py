"""gangliond on a private message bus."""
import asyncio
import contextlib
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from dbus_fast import Message
from dbus_fast.aio import MessageBus

ROOT = Path(__file__).parents[2]
NAME, PATH = "org.ganglion.Llm1", "/org/ganglion/Llm1"
PATIENCE = 60


class Daemon:
    """A running daemon. `ready` is false if it ended or did not become ready; `log()` has the reason."""

    def __init__(self, bin_folder: Path, folder: Path, model: Path, settings: str = ""):
        self.bin, self.folder = bin_folder, folder
        policy = ROOT / "tests/support/bus.conf"
        (folder / "policy.conf").write_text((ROOT / "config/org.ganglion.Llm1.conf").read_text())
        described = policy.read_text().replace("@FOLDER@", str(folder)).replace("@USER@", str(os.getuid()))
        (folder / "bus.conf").write_text(described)
        (folder / "gangliond.toml").write_text(
            f'[model]\npath = "{model}"\ntool_formats = "{ROOT / "config/tools"}"\n{settings}\n'
        )
        self.bus = subprocess.Popen(
            ["dbus-daemon", f"--config-file={folder / 'bus.conf'}", "--nofork", "--nopidfile", "--print-address"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        self.address = self.bus.stdout.readline().strip()
        state = folder / "state"
        state.mkdir()
        self.environment = os.environ | {
            "GANGLION_BUS": self.address,
            "DBUS_SYSTEM_BUS_ADDRESS": self.address,
            "STATE_DIRECTORY": str(state),
        }
        with (folder / "daemon.log").open("w") as log:
            self.process = subprocess.Popen(
                [bin_folder / "gangliond", "--config", folder / "gangliond.toml", "--bus", self.address],
                stdout=log, stderr=log, env=self.environment,
            )
        self.ready = self.wait()

    def wait(self) -> bool:
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            if '"ready"' in self.ctl("status", "--json").stdout:
                return True
            time.sleep(0.03)
        return False

    def log(self) -> str:
        return (self.folder / "daemon.log").read_text(errors="replace")

    def ctl(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.bin / "ganglionctl", *arguments],
            capture_output=True, text=True, env=self.environment, stdin=subprocess.DEVNULL, timeout=PATIENCE,
        )

    def ask(self, text: str, *arguments: str) -> dict:
        """Returns the output of `ask --json`; an error has the member `error`."""
        asked = self.ctl("ask", "--json", "-q", *arguments, "--", text)
        try:
            answer = json.loads(asked.stdout)
        except json.JSONDecodeError:
            return {"error": asked.stderr.strip()}
        return answer | ({"error": answer["message"]} if "message" in answer else {})

    def call(self, interface: str | None, member: str, signature: str, *body) -> Message:
        """Sends one method call to the daemon's root object and returns its reply."""

        async def sent():
            bus = await MessageBus(bus_address=self.address).connect()
            message = Message(NAME, PATH, interface, member, signature=signature, body=list(body))
            reply = await asyncio.wait_for(bus.call(message), PATIENCE)
            bus.disconnect()
            return reply

        return asyncio.run(sent())

    def stop(self) -> None:
        for process in (self.process, self.bus):
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


@contextlib.contextmanager
def running(bin_folder: Path, model: Path, settings: str = ""):
    """Runs a daemon during a `with` block."""
    with tempfile.TemporaryDirectory(prefix="ganglion-files-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        daemon = Daemon(bin_folder, folder, model.resolve(), settings)
        try:
            yield daemon
        finally:
            daemon.stop()

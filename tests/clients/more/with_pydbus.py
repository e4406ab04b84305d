"""pydbus. It drops the descriptors of answers: it submits, and reads by calls."""

import time

from gi.repository import GLib
from pydbus import SystemBus

NAME, ROOT = "org.ganglion.Llm1", "/org/ganglion/Llm1"


class Client:
    def __init__(self):
        self.bus = SystemBus()
        self.manager = self.bus.get(NAME, ROOT)[f"{NAME}.Manager"]

    def proxy(self, path, interface):
        return self.bus.get(NAME, path)[f"{NAME}.{interface}"]

    def user(self, text):
        return [("user", {"content": GLib.Variant("s", text)})]

    def tokens(self, most):
        return {"max_tokens": GLib.Variant("u", most)}

    def generate(self, text, most):
        path = self.manager.Submit(self.user(text), self.tokens(most))
        return path, path

    def open_session(self):
        return self.manager.OpenSession({})

    def send(self, path, text, most):
        path = self.proxy(path, "Session").Submit(text, self.tokens(most))
        return path, path

    def answer(self, path):
        request, said, offset, done = self.proxy(path, "Request"), "", 0, False
        while not done:
            text, offset, done = request.Read(offset)
            said += text
            time.sleep(0.02)
        return said, request.Result

    def messages(self, path):
        return self.proxy(path, "Session").Messages()

    def cancel(self, path):
        self.proxy(path, "Request").Cancel()

    def complete(self, text, most):
        return self.manager.Complete(text, self.tokens(most))[0]

    def signals(self, text, most):
        loop, said = GLib.MainLoop(), []
        options = {**self.tokens(most), "signals": GLib.Variant("b", True)}
        request = self.proxy(self.manager.Submit(self.user(text), options), "Request")
        request.Delta.connect(lambda seq, text: said.append(text))
        request.Finished.connect(lambda reason, info: loop.quit())
        if not request.Result:
            loop.run()
        return "".join(said) or request.Read(0)[0]

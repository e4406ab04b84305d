"""dasbus."""

from dasbus.connection import SystemMessageBus
from dasbus.loop import EventLoop
from dasbus.typing import get_variant
from dasbus.unix import GLibClientUnix

NAME, ROOT = "org.ganglion.Llm1", "/org/ganglion/Llm1"


class Client:
    def __init__(self):
        self.bus = SystemMessageBus()
        self.manager = self.proxy(ROOT, "Manager")

    def proxy(self, path, interface):
        # Without GLibClientUnix there are no descriptors.
        return self.bus.get_proxy(NAME, path, interface_name=f"{NAME}.{interface}", client=GLibClientUnix)

    def user(self, text):
        return [("user", {"content": get_variant("s", text)})]

    def tokens(self, most):
        return {"max_tokens": get_variant("u", most)}

    def generate(self, text, most):
        return self.manager.Generate(self.user(text), self.tokens(most))

    def open_session(self):
        return self.manager.OpenSession({})

    def send(self, path, text, most):
        return self.proxy(path, "Session").Send(text, self.tokens(most))

    def messages(self, path):
        return self.proxy(path, "Session").Messages()

    def cancel(self, path):
        self.proxy(path, "Request").Cancel()

    def complete(self, text, most):
        return self.manager.Complete(text, self.tokens(most))[0]

    def signals(self, text, most):
        loop, said = EventLoop(), []
        options = self.tokens(most) | {"signals": get_variant("b", True)}
        request = self.proxy(self.manager.Submit(self.user(text), options), "Request")
        request.Delta.connect(lambda seq, text: said.append(text))
        request.Finished.connect(lambda reason, info: loop.quit())
        if request.Result:
            return request.Read(0)[0]
        loop.run()
        return "".join(said) or request.Read(0)[0]

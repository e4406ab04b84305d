"""sdbus, blocking; its signals need asyncio."""

import asyncio

import sdbus

NAME, ROOT = "org.ganglion.Llm1", "/org/ganglion/Llm1"


class Manager(sdbus.DbusInterfaceCommon, interface_name=f"{NAME}.Manager"):
    @sdbus.dbus_method("a(sa{sv})a{sv}")
    def generate(self, messages, options):
        raise NotImplementedError

    @sdbus.dbus_method("a{sv}")
    def open_session(self, options):
        raise NotImplementedError

    @sdbus.dbus_method("sa{sv}")
    def complete(self, prompt, options):
        raise NotImplementedError


class Session(sdbus.DbusInterfaceCommon, interface_name=f"{NAME}.Session"):
    @sdbus.dbus_method("sa{sv}")
    def send(self, text, options):
        raise NotImplementedError

    @sdbus.dbus_method()
    def messages(self):
        raise NotImplementedError


class Request(sdbus.DbusInterfaceCommon, interface_name=f"{NAME}.Request"):
    @sdbus.dbus_method()
    def cancel(self):
        raise NotImplementedError


class Signals(sdbus.DbusInterfaceCommonAsync, interface_name=f"{NAME}.Request"):
    @sdbus.dbus_method_async("t", "stb")
    async def read(self, offset):
        raise NotImplementedError

    @sdbus.dbus_signal_async("ts")
    def delta(self):
        raise NotImplementedError

    @sdbus.dbus_signal_async("sa{sv}")
    def finished(self):
        raise NotImplementedError


class Submits(sdbus.DbusInterfaceCommonAsync, interface_name=f"{NAME}.Manager"):
    @sdbus.dbus_method_async("a(sa{sv})a{sv}", "o")
    async def submit(self, messages, options):
        raise NotImplementedError


class Client:
    def __init__(self):
        # Without one that is the default, each object would call over a connection of its own.
        sdbus.set_default_bus(sdbus.sd_bus_open_system())
        self.manager = Manager(NAME, ROOT)

    def user(self, text):
        return [("user", {"content": ("s", text)})]

    def tokens(self, most):
        return {"max_tokens": ("u", most)}

    def generate(self, text, most):
        return self.manager.generate(self.user(text), self.tokens(most))

    def open_session(self):
        return self.manager.open_session({})

    def send(self, path, text, most):
        return Session(NAME, path).send(text, self.tokens(most))

    def messages(self, path):
        return Session(NAME, path).messages()

    def cancel(self, path):
        Request(NAME, path).cancel()

    def complete(self, text, most):
        return self.manager.complete(text, self.tokens(most))[0]

    def signals(self, text, most):
        return asyncio.run(self.heard(text, most))

    async def heard(self, text, most):
        options = {**self.tokens(most), "signals": ("b", True)}
        path = await Submits.new_proxy(NAME, ROOT).submit(self.user(text), options)
        request, said = Signals.new_proxy(NAME, path), []

        async def listen():
            async for _seq, text in request.delta:
                said.append(text)

        listening = asyncio.create_task(listen())
        done = False
        while not done:
            await asyncio.sleep(0.05)
            text, _next, done = await request.read(0)
        listening.cancel()
        return "".join(said) or text

"""dbus-python, which Debian and Ubuntu have installed."""

import dbus
import dbus.mainloop.glib
from gi.repository import GLib

NAME, ROOT = "org.ganglion.Llm1", "/org/ganglion/Llm1"


class Client:
    def __init__(self):
        dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
        self.bus = dbus.SystemBus()
        self.manager = self.proxy(ROOT, "Manager")

    def proxy(self, path, interface):
        return dbus.Interface(self.bus.get_object(NAME, path), f"{NAME}.{interface}")

    def user(self, text):
        return [("user", {"content": text})]

    def generate(self, text, most):
        path, stream = self.manager.Generate(self.user(text), {"max_tokens": most})
        return path, stream.take()

    def open_session(self):
        return self.manager.OpenSession(dbus.Dictionary(signature="sv"))

    def send(self, path, text, most):
        path, stream = self.proxy(path, "Session").Send(text, {"max_tokens": most})
        return path, stream.take()

    def messages(self, path):
        return self.proxy(path, "Session").Messages()

    def cancel(self, path):
        self.proxy(path, "Request").Cancel()

    def complete(self, text, most):
        return self.manager.Complete(text, {"max_tokens": most})[0]

    def signals(self, text, most):
        loop, said = GLib.MainLoop(), []
        heard = lambda member, call: self.bus.add_signal_receiver(call, member, f"{NAME}.Request", NAME)
        heard("Delta", lambda seq, text: said.append(text))
        heard("Finished", lambda reason, info: loop.quit())
        self.manager.Submit(self.user(text), {"max_tokens": most, "signals": True})
        loop.run()
        return "".join(said)

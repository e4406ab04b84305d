"""PyGObject, with Gio itself."""

import os

from gi.repository import Gio, GLib

NAME, ROOT = "org.ganglion.Llm1", "/org/ganglion/Llm1"


class Client:
    def __init__(self):
        self.bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)

    def call(self, path, method, arguments=None):
        reply, fds = self.bus.call_with_unix_fd_list_sync(
            NAME, path, *f"{NAME}.{method}".rsplit(".", 1), arguments, None, Gio.DBusCallFlags.NONE, -1, None, None
        )
        # `get` duplicates; the list closes its descriptors.
        return [fds.get(value) if kind == "h" else value
                for kind, value in zip(kinds(reply), reply.unpack())]

    def asks(self, signature, first, **options):
        types = {int: "u", bool: "b"}
        options = {name: GLib.Variant(types[type(value)], value) for name, value in options.items()}
        return GLib.Variant(f"({signature}a{{sv}})", (first, options))

    def user(self, text, **options):
        return self.asks("a(sa{sv})", [("user", {"content": GLib.Variant("s", text)})], **options)

    def generate(self, text, most):
        return self.call(ROOT, "Manager.Generate", self.user(text, max_tokens=most))

    def open_session(self):
        return self.call(ROOT, "Manager.OpenSession", GLib.Variant("(a{sv})", ({},)))[0]

    def send(self, path, text, most):
        return self.call(path, "Session.Send", self.asks("s", text, max_tokens=most))

    def messages(self, path):
        return self.call(path, "Session.Messages")[0]

    def cancel(self, path):
        self.call(path, "Request.Cancel")

    def complete(self, text, most):
        return self.call(ROOT, "Manager.Complete", self.asks("s", text, max_tokens=most))[0]

    def signals(self, text, most):
        loop, said = GLib.MainLoop(), []

        def heard(_bus, _sender, _path, _interface, member, arguments):
            said.append(arguments[1]) if member == "Delta" else loop.quit()

        flags = Gio.DBusSignalFlags.NONE
        self.bus.signal_subscribe(NAME, f"{NAME}.Request", None, None, None, flags, heard)
        self.call(ROOT, "Manager.Submit", self.user(text, max_tokens=most, signals=True))
        loop.run()
        return "".join(said)


def kinds(reply):
    return [reply.get_child_value(i).get_type_string() for i in range(reply.n_children())]

"""jeepney, blocking."""

from jeepney import DBusAddress, MatchRule, new_method_call
from jeepney.io.blocking import open_dbus_connection

NAME, ROOT = "org.ganglion.Llm1", "/org/ganglion/Llm1"


class Client:
    def __init__(self):
        # Without enable_fds there are no pipes.
        self.bus = open_dbus_connection("SYSTEM", enable_fds=True)

    def call(self, path, method, signature="", *arguments):
        interface, member = method.split(".")
        address = DBusAddress(path, NAME, f"{NAME}.{interface}")
        call = new_method_call(address, member, signature, arguments)
        reply = self.bus.send_and_get_reply(call)
        if reply.header.message_type.name == "error":
            raise RuntimeError(reply.body)
        return reply.body

    def stream(self, body):
        path, stream = body
        return path, stream.to_raw_fd()

    def user(self, text):
        return [("user", {"content": ("s", text)})]

    def generate(self, text, most):
        options = {"max_tokens": ("u", most)}
        return self.stream(self.call(ROOT, "Manager.Generate", "a(sa{sv})a{sv}", self.user(text), options))

    def open_session(self):
        return self.call(ROOT, "Manager.OpenSession", "a{sv}", {})[0]

    def send(self, path, text, most):
        return self.stream(self.call(path, "Session.Send", "sa{sv}", text, {"max_tokens": ("u", most)}))

    def messages(self, path):
        return self.call(path, "Session.Messages")[0]

    def cancel(self, path):
        self.call(path, "Request.Cancel")

    def complete(self, text, most):
        return self.call(ROOT, "Manager.Complete", "sa{sv}", text, {"max_tokens": ("u", most)})[0]

    def signals(self, text, most):
        # They are sent to this connection alone: nothing has to be asked of the bus.
        said = []
        with self.bus.filter(MatchRule(type="signal", interface=f"{NAME}.Request"), bufsize=1000) as heard:
            options = {"max_tokens": ("u", most), "signals": ("b", True)}
            self.call(ROOT, "Manager.Submit", "a(sa{sv})a{sv}", self.user(text), options)
            while True:
                signal = self.bus.recv_until_filtered(heard)
                if signal.header.fields[3] == "Finished":
                    return "".join(said)
                said.append(signal.body[1])

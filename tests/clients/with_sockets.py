"""Runs a command with sockets that listen, as systemd passes them.

with_sockets.py NAME=PLACE... -- COMMAND...: NAME is that of FileDescriptorName=. PLACE is the path of a UNIX socket, or
tcp:FILE for a port of this machine, whose number is written to FILE.
"""

import fcntl
import os
import socket
import sys

FIRST = 3  # the first descriptor that systemd passes


def listen(place):
    if not place.startswith("tcp:"):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(place)
        listener.listen(socket.SOMAXCONN)
        return listener
    listener = socket.create_server(("127.0.0.1", 0))
    with open(place.removeprefix("tcp:"), "w") as file:
        print(listener.getsockname()[1], file=file)
    return listener


end = sys.argv.index("--")
names, places = zip(*(one.split("=", 1) for one in sys.argv[1:end]))
# Descriptors that Python opens are closed by exec, and a copy that dup2 makes is not. All are first copied above those that
# are passed, so that no copy replaces a listener.
listeners = [fcntl.fcntl(listen(place).detach(), fcntl.F_DUPFD_CLOEXEC, 100) for place in places]
for number, listener in enumerate(listeners):
    os.dup2(listener, FIRST + number)
os.environ |= {
    "LISTEN_FDS": str(len(listeners)),
    "LISTEN_PID": str(os.getpid()),
    "LISTEN_FDNAMES": ":".join(names),
}
os.execvp(sys.argv[end + 1], sys.argv[end + 1 :])

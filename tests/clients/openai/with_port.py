"""Runs a command with a port of this machine, as systemd passes one.

with_port.py FILE COMMAND...: writes the number of the port to FILE.
"""

import os
import socket
import sys

FIRST = 3  # the first descriptor that systemd passes
port = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[1], "w") as file:
    print(port.getsockname()[1], file=file)
os.dup2(port.fileno(), FIRST, inheritable=True)
if port.fileno() != FIRST:
    port.close()
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid()), "LISTEN_FDNAMES": "tcp"}
os.execvp(sys.argv[2], sys.argv[2:])

"""Runs a command with its standard output or standard error on a terminal and copies what arrives there.

usage: terminal.py stdout|stderr COMMAND...

The terminal changes no byte (no CR before LF). Exits as the command does.
"""

import os
import pty
import subprocess
import sys
import termios


def raw_terminal():
    """Both ends of a terminal of 24 lines and 100 columns that passes bytes on as they are."""
    keeper, terminal = pty.openpty()
    attributes = termios.tcgetattr(terminal)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    termios.tcsetwinsize(terminal, (24, 100))
    return keeper, terminal


def main():
    which, command = sys.argv[1], sys.argv[2:]
    keeper, terminal = raw_terminal()
    outputs = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, which: terminal}
    # indicatif draws nothing on a terminal that says it is none.
    environment = os.environ | {"TERM": "xterm-256color"}
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, **outputs)
    os.close(terminal)
    while True:
        try:
            data = os.read(keeper, 65536)
        except OSError:
            # EIO: the last writer has gone.
            break
        if not data:
            break
        sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    sys.exit(child.wait())


main()

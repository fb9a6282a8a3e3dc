"""Someone who types into `ferrokeeper cli`, on a terminal of its own.

Arguments: the program, HOST:PORT. Each thing typed waits for what it brings; prints what the terminal shows.
"""
import os
import pty
import select
import sys
import time

program, server = sys.argv[1:3]
child, terminal = pty.fork()
if child == 0:
    os.environ["TERM"] = "xterm"
    os.execv(program, [program, "cli", "-server", server])

shown = b""


def wait_for(text, count=1):
    global shown
    deadline = time.monotonic() + 20
    while shown.count(text.encode()) < count:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([terminal], [], [], left)[0]:
            sys.exit(f"no {text!r} in {shown.decode(errors='replace')}")
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            sys.exit(f"ended without {text!r} in {shown.decode(errors='replace')}")


def type_in(keys):
    os.write(terminal, keys.encode())


wait_for("state:SyncConnected")
type_in("crea\t /hello world\r")
wait_for("Created /hello")
wait_for("(CONNECTED) 1] ")
# Completed, and completed again below it.
type_in("create /hel\t/child one\r")
wait_for("Created /hello/child")
wait_for("(CONNECTED) 2] ")
type_in("get /hello/c\t\r")
wait_for("one", 2)
wait_for("(CONNECTED) 3] ")
# Up, and up again: the line before the last.
type_in("\x1b[A\x1b[A\r")
wait_for("Node already exists: /hello/child")
wait_for("(CONNECTED) 4] ")
# An event comes while a line is typed, which stays.
type_in("get -w /hello\r")
wait_for("(CONNECTED) 5] ")
type_in("set /hello again\r")
wait_for("type:NodeDataChanged path:/hello")
wait_for("(CONNECTED) 6] ")
type_in("history\r")
wait_for("5 - set /hello again")
wait_for("(CONNECTED) 7] ")
# The end of the input ends the shell.
type_in("\x04")
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))

"""kazoo with read_only=True.

Prints what it sees. Lines that begin with @ ask the test to do something and wait for a line on
stdin: @lose, after which one server of three is left, and @return.
"""

import logging
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import KeeperState

logging.disable(logging.CRITICAL)

HOSTS = sys.argv[1]
DEADLINE = 30


def ask(what):
    print(what, flush=True)
    sys.stdin.readline()


def wait(client, state):
    deadline = time.monotonic() + DEADLINE
    while client.client_state != state:
        assert time.monotonic() < deadline, f"{client.client_state}, not {state}"
        time.sleep(0.01)
    print("state", state)


def tried(what, call):
    try:
        call()
        print(what, "done")
    except KazooException as error:
        print(what, type(error).__name__)


writer = KazooClient(HOSTS)
writer.start(DEADLINE)
writer.create("/data", b"1")
# Whichever server is left has it.
writer.sync("/")
writer.stop()
writer.close()

ask("@lose")
client = KazooClient(HOSTS, read_only=True)
client.start(DEADLINE)
wait(client, KeeperState.CONNECTED_RO)
print("data", client.get("/data")[0].decode())
print("children", sorted(client.get_children("/")))
tried("create", lambda: client.create("/a"))
tried("set", lambda: client.set("/data", b"x"))
tried("delete", lambda: client.delete("/data"))
tried("sync", lambda: client.sync("/"))
transaction = client.transaction()
transaction.check("/data", -1)
tried("multi", transaction.commit)
print("still", client.get("/data")[0].decode())

ask("@return")
wait(client, KeeperState.CONNECTED)
# It comes back with the session that only read, and is told that it is gone.
tried("set", lambda: client.retry(client.set, "/data", b"2"))
print("data", client.get("/data")[0].decode())
client.stop()
client.close()
print("end")

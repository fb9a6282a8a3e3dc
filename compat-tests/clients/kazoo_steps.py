"""Forty steps through kazoo.

Prints what each step shows. Lines that begin with @ ask the test to do something and wait for a
line on stdin: @restart PATH (while this process is frozen; someone else then sets PATH), @kill,
@gone PATH, @there PATH, @words.
"""

import logging
import queue
import socket
import sys
import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException
from kazoo.protocol.states import EventType

logging.disable(logging.CRITICAL)

HOSTS = sys.argv[1]
DEADLINE = 30
events = queue.Queue()


def step(number, name):
    print("==", number, name)


def ask(what):
    print(what)
    sys.stdin.readline()


def stat_text(stat):
    now = time.time() * 1000
    times = (stat.ctime, stat.mtime)
    sane = all(now - 600_000 < t < now + 5_000 for t in times) and times[0] <= times[1]
    return (
        f"czxid={stat.czxid:#x} mzxid={stat.mzxid:#x} pzxid={stat.pzxid:#x} "
        f"version={stat.version} cversion={stat.cversion} aversion={stat.aversion} "
        f"ephemeralOwner={stat.ephemeralOwner:#x} dataLength={stat.dataLength} "
        f"numChildren={stat.numChildren} times={'sane' if sane else times}"
    )


def text(value):
    kind = type(value).__name__
    if kind == "ZnodeStat":
        return stat_text(value)
    if kind == "list":
        return "[" + ", ".join(text(v) for v in sorted(value, key=str)) + "]"
    if kind == "tuple":
        return "(" + ", ".join(text(v) for v in value) + ")"
    if isinstance(value, KazooException):
        return kind
    if isinstance(value, bytes) and len(value) > 100:
        return f"{len(value)} bytes of {sorted(set(value))}"
    return repr(value)


def show(call, *args, **kwargs):
    label = f"{call.__name__} {args[0] if args else ''}"
    try:
        print(label, "->", text(call(*args, **kwargs)))
    except (KazooException, ValueError, TypeError) as error:
        print(label, "-> raises", type(error).__name__)


def watch(event):
    # NONE is kazoo's own word to all watches when the connection goes.
    if event.type != EventType.NONE:
        events.put(f"{event.type} {event.state} {event.path}")


def expect_events(count):
    for _ in range(count):
        print("event", events.get(timeout=DEADLINE))


def no_events(zk):
    zk.sync("/")
    print("events left:", events.qsize())


def connect(client_id=None):
    zk = KazooClient(hosts=HOSTS, timeout=10, client_id=client_id)
    zk.start(timeout=DEADLINE)
    return zk


def sever(zk):
    """Cuts the connection under kazoo, which then neither closes the session nor comes back."""
    zk._stopped.set()
    zk._connection._socket.shutdown(socket.SHUT_RDWR)


class States:
    """Connection states as kazoo reports them."""

    def __init__(self, zk):
        self.seen = queue.Queue()
        zk.add_listener(self.seen.put)

    def expect(self, *names):
        for name in names:
            state = self.seen.get(timeout=DEADLINE)
            print("state", state)
            if state != name:
                sys.exit(f"expected {name}")


zk = connect()
step(1, "create persistent")
show(zk.create, "/f", b"one")
show(zk.create, "/f/two", b"two", include_data=True)
show(zk.get, "/f")

step(2, "null and empty data")
show(zk.create, "/f/null", None)
show(zk.create, "/f/empty", b"")
show(zk.get, "/f/null")
show(zk.get, "/f/empty")

step(3, "create nested")
show(zk.create, "/f/a", b"x")
show(zk.create, "/f/a/b", b"y")
show(zk.create, "/f/a/b/c", b"z")
show(zk.create, "/f/m/n/o", b"made", makepath=True)
show(zk.get_children, "/f/a")

step(4, "create without a parent")
show(zk.create, "/f/no/child", b"x")

step(5, "create what exists")
show(zk.create, "/f/a", b"again")

step(6, "create ephemeral")
show(zk.create, "/f/e", b"mine", ephemeral=True)
show(zk.get, "/f/e")

step(7, "create below an ephemeral")
show(zk.create, "/f/e/child", b"x")

step(8, "create sequential")
show(zk.create, "/f/s-", b"1", sequence=True)
show(zk.create, "/f/s-", b"2", sequence=True)
show(zk.create, "/f/other", b"x")
show(zk.create, "/f/", b"3", sequence=True)
show(zk.get_children, "/f")

step(9, "create ephemeral sequential")
show(zk.create, "/f/es-", b"1", ephemeral=True, sequence=True)
show(zk.create, "/f/es-", b"2", ephemeral=True, sequence=True, include_data=True)
show(zk.get_children, "/f")

step(10, "bad paths")
for path in ["/f/./x", "/f/..", "/f/x\0y", "/f/x\x1fy", "/f/x\x7fy", "/f/\ue000", "/f/\U0001f600", "/f/\ufff0"]:
    print(repr(path))
    show(zk.create, path, b"x")
    show(zk.set, path, b"x")
    show(zk.get, path)

step(11, "unicode path and data")
show(zk.create, "/f/snö-雪", "grüße".encode())
show(zk.create, "/f/...\u00a0\ud7ff\uf900", b"edge")
show(zk.get, "/f/snö-雪")
show(zk.get_children, "/f")

step(12, "big data")
show(zk.create, "/f/big", b"x" * 900_000)
show(zk.get, "/f/big")
states = States(zk)
show(zk.set, "/f/big", b"x" * 1_100_000)
states.expect(KazooState.SUSPENDED, KazooState.CONNECTED)
show(zk.exists, "/f/big")

step(13, "stat")
for path in ["/f", "/f/a/b", "/", "/f/nothing"]:
    if path == "/":
        print("exists / ->", zk.exists(path).numChildren)
    else:
        show(zk.exists, path)

step(14, "get")
show(zk.get, "/f")
show(zk.get, "/f/a/b/c")

step(15, "set")
show(zk.set, "/f", b"two")
show(zk.set, "/f", b"three")
show(zk.set, "/f/null", None)
show(zk.get, "/f")

step(16, "set with the right version")
show(zk.set, "/f", b"four", version=2)

step(17, "set with a wrong version")
show(zk.set, "/f", b"five", version=2)
show(zk.get, "/f")

step(18, "get and set what is missing")
show(zk.get, "/f/nothing")
show(zk.set, "/f/nothing", b"x")

step(19, "list")
show(zk.get_children, "/f")
show(zk.get_children, "/")

step(20, "list with stat")
show(zk.get_children, "/f", include_data=True)
show(zk.get_children, "/f/a/b/c", include_data=True)

step(21, "list what is missing")
show(zk.get_children, "/f/nothing")

step(22, "delete with a wrong version")
show(zk.delete, "/f/other", version=5)

step(23, "delete what has children")
show(zk.delete, "/f/a")

step(24, "delete what is missing")
show(zk.delete, "/f/nothing")

step(25, "delete")
show(zk.delete, "/f/other", version=0)
show(zk.get_children, "/f", include_data=True)


def transaction(*calls):
    t = zk.transaction()
    for name, *args in calls:
        getattr(t, name)(*args)
    print("transaction", [name for name, *_ in calls], "->", [text(r) for r in t.commit()])


step(26, "check")
transaction(("check", "/f", 3))
transaction(("check", "/f", -1))
transaction(("check", "/f", 0))
transaction(("check", "/f/nothing", 0))

step(27, "multi that succeeds")
transaction(
    ("check", "/f", 3),
    ("create", "/f/t", b"1"),
    ("create", "/f/t/u-", b"2", None, False, True),
    ("create", "/f/t/v", b"3", None, True),
    ("set_data", "/f/t", b"4"),
    ("set_data", "/f/t", b"5", 1),
    ("delete", "/f/t/v"),
    ("check", "/f/t", 2),
)
show(zk.get, "/f/t")
show(zk.get_children, "/f/t")
transaction()

step(28, "multi that fails")
transaction(
    ("create", "/f/x", b"1"),
    ("set_data", "/f", b"never"),
    ("delete", "/f/nothing"),
    ("create", "/f/y", b"1"),
)
transaction(("check", "/f", 7), ("delete", "/f/t"))
transaction(("create", "/f/z", b""), ("create", "/f/z", b""))
show(zk.exists, "/f/x")
show(zk.get, "/f")

step(29, "data watch")
zk.create("/f/w", b"x")
show(zk.get, "/f/w", watch=watch)
show(zk.set, "/f/w", b"y")
show(zk.set, "/f/w", b"z")
expect_events(1)
show(zk.get, "/f/w", watch=watch)
show(zk.delete, "/f/w")
expect_events(1)
no_events(zk)

step(30, "child watch")
zk.create("/f/w", b"x")
show(zk.get_children, "/f/w", watch=watch)
show(zk.create, "/f/w/1")
show(zk.create, "/f/w/2")
expect_events(1)
show(zk.get_children, "/f/w", watch=watch)
show(zk.set, "/f/w", b"x")
show(zk.set, "/f/w/1", b"x")
show(zk.delete, "/f/w/2")
expect_events(1)
no_events(zk)

step(31, "exists watch")
show(zk.exists, "/f/later", watch=watch)
show(zk.create, "/f/later", b"x")
expect_events(1)
show(zk.exists, "/f/later", watch=watch)
show(zk.set, "/f/later", b"y")
expect_events(1)
show(zk.exists, "/f/later", watch=watch)
show(zk.delete, "/f/later")
expect_events(1)
show(zk.get, "/f/later", watch=watch)
show(zk.create, "/f/later")
show(zk.delete, "/f/later")
no_events(zk)

step(32, "order of watches")
zk.get("/f/w", watch=watch)
zk.get_children("/f/w", watch=watch)
zk.get_children("/f/w/1", watch=watch)
zk.exists("/f/w/9", watch=watch)
transaction(
    ("set_data", "/f/w", b"1"),
    ("create", "/f/w/9", b""),
    ("delete", "/f/w/1"),
    ("delete", "/f/w/9"),
    ("delete", "/f/w"),
)
expect_events(4)
no_events(zk)
zk.create("/f/w", b"x")
# All sent before any reply is read: get sees the node before the first set.
replies = [zk.get_async("/f/w", watch=watch)]
replies += [zk.set_async("/f/w", value) for value in (b"1", b"2")]
for reply in replies:
    print(text(reply.get(timeout=DEADLINE)))
expect_events(1)
no_events(zk)

step(33, "sync")
show(zk.sync, "/f")
show(zk.sync, "/f/nothing")

step(34, "ephemerals are gone after close")
zk.stop()
zk = connect()
show(zk.get_children, "/f")
show(zk.exists, "/f/e")

step(35, "ephemerals are gone after expiry")
zk.create("/f/e", b"x", ephemeral=True)
zk.exists("/f/e", watch=watch)
owner = connect()
owner.create("/f/e2", b"x", ephemeral=True)
zk.exists("/f/e2", watch=watch)
sever(owner)
ask("@there /f/e2")
ask("@gone /f/e2")
expect_events(1)
show(zk.exists, "/f/e")

step(36, "attach again with id and password")
client_id = zk.client_id
sever(zk)
zk2 = connect(client_id)
print("same session:", zk2.client_id == client_id, "password of", len(client_id[1]), "bytes")
show(zk2.get, "/f/e")
zk = zk2

step(37, "wrong password refused")
owner = connect()
owner.create("/f/e3", b"x", ephemeral=True)
session, _ = owner.client_id
sever(owner)
thief = KazooClient(hosts=HOSTS, timeout=10, client_id=(session, b"0123456789abcdef"))
states = States(thief)
thief.start(timeout=DEADLINE)
states.expect(KazooState.CONNECTED)
print("another session:", thief.client_id[0] != session)
thief.stop()
ask("@gone /f/e3")

step(38, "restart with the session kept and a missed change reported")
states = States(zk)
before = zk.client_id[0]
# kazoo sends no setWatches: its recipes read again when the connection is back.
zk.DataWatch("/f", lambda data, stat: events.put(f"data watch {data} {stat.version}"))
zk.ChildrenWatch("/f/a", lambda names: events.put(f"children watch {sorted(names)}"))
expect_events(2)
ask("@restart /f")
states.expect(KazooState.SUSPENDED, KazooState.CONNECTED)
expect_events(1)
print("same session:", zk.client_id[0] == before)
show(zk.exists, "/f/e")
show(zk.create, "/f/a/new")
expect_events(1)
show(zk.get, "/f")

step(39, "kill -9 with everything acknowledged there")
show(zk.create, "/f/k-", b"1", sequence=True)
show(zk.create, "/f/ke-", b"1", ephemeral=True, sequence=True)
show(zk.set, "/f", b"last")
expect_events(1)
transaction(("create", "/f/tx", b"all"), ("set_data", "/f/a", b"all"))
ask("@kill")
states.expect(KazooState.SUSPENDED, KazooState.CONNECTED)
for path in ["/f", "/f/a", "/f/tx", "/f/e"]:
    show(zk.get, path)
show(zk.get_children, "/f")
show(zk.create, "/f/k-", b"3", sequence=True)

step(40, "four-letter words")
ask("@words")
zk.stop()

"""kazoo clients that read, write, lock and hold ephemerals, and write down what they were told.

    kazoo_chaos.py HOSTS SEED FILE

Prints "ready" when all have a session. A line on stdin: they stop what they do and print "stopped", their sessions
stay. The end of stdin: they close their sessions. FILE gets one JSON object a line, times in nanoseconds of the
monotonic clock; the checker (src/bin/chaos) says what each means.
"""

import json
import random
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

HOSTS, SEED, FILE = sys.argv[1], int(sys.argv[2]), sys.argv[3]
CLIENTS = 4
LOCKERS = 2
KEYS = 8
SESSION_SECONDS = 6.0
PAUSE = 0.01
UNKNOWN = (
    ConnectionClosedError,
    ConnectionLoss,
    KazooTimeoutError,
    OperationTimeoutError,
    SessionExpiredError,
)

stopped = threading.Event()
closing = threading.Event()
out = open(FILE, "w", buffering=1)
out_lock = threading.Lock()


def write(**fields):
    with out_lock:
        out.write(json.dumps(fields) + "\n")


def now():
    return time.monotonic_ns()


_read_response = ConnectionHandler._read_response


def read_response(self, header, buffer, offset):
    """As kazoo's, and the result knows the header's zxid, whose session it was and who answered."""
    _, result, _ = self.client._pending[0]
    if result is not None:
        result.header_zxid = header.zxid
        result.session_id = self.client._session_id
        try:
            result.server = self._socket.getpeername()[0]
        except OSError:
            result.server = None
    return _read_response(self, header, buffer, offset)


ConnectionHandler._read_response = read_response


def hexed(session):
    return f"0x{session:x}" if session else None


class Client:
    def __init__(self, name):
        self.name = name
        self.random = random.Random(f"{SEED} {name}")
        self.session = None
        self.count = 0
        forever = KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_delay=0.5)
        self.client = KazooClient(HOSTS, timeout=SESSION_SECONDS, connection_retry=forever)
        self.client.add_listener(self.changed)
        self.client.start(timeout=60)
        self.met()

    def changed(self, state):
        if state == KazooState.LOST and not closing.is_set() and self.session:
            write(c=self.name, op="expired", s=hexed(self.session), t0=now(), t1=now())

    def met(self):
        """Whether there is a connection; a session that is new gets its ephemeral."""
        if not self.client.connected or not self.client.client_id:
            return False
        session = self.client.client_id[0]
        if session and session != self.session:
            self.session = session
            at = now()
            write(c=self.name, op="session", s=hexed(session), timeout=int(SESSION_SECONDS * 1000), t0=at, t1=at)
            path = f"/chaos/e/{hexed(session)}"
            self.call("create", path, lambda: self.client.create_async(
                path, self.name.encode(), ephemeral=True, include_data=True), ephemeral=True)
        return True

    def call(self, op, path, start, **fields):
        """One request; returns what came, or None."""
        began = now()
        end, value, result = "unknown", None, None
        try:
            result = start()
            value = result.get(timeout=60)
            end = "ok"
        except UNKNOWN:
            pass
        except KazooException as error:
            end = type(error).__name__
        ended = now()
        entry = dict(c=self.name, op=op, path=path, t0=began, t1=ended, end=end, **fields)
        if end != "unknown":
            entry["s"] = hexed(getattr(result, "session_id", None))
            entry["header"] = getattr(result, "header_zxid", 0)
            entry["at"] = getattr(result, "server", None)
        if end == "ok":
            if op == "get":
                data, stat = value
                entry.update(value=data.decode(), version=stat.version, zxid=stat.mzxid)
            elif op == "set":
                entry.update(version=value.version, zxid=value.mzxid)
            elif op == "create":
                made, stat = value
                entry.update(made=made, zxid=stat.czxid)
            elif op == "exists":
                entry.update(owner=hexed(value.owner_session_id) if value else None)
            elif op == "children":
                entry.update(names=value)
        write(**entry)
        return value if end == "ok" else None

    def fresh(self):
        self.count += 1
        return f"{self.name}-{self.count}"

    def get(self, key, **fields):
        path = f"/chaos/r/{key}"
        return self.call("get", path, lambda: self.client.get_async(path), **fields)

    def set(self, key, want):
        path, value = f"/chaos/r/{key}", self.fresh()
        return self.call("set", path, lambda: self.client.set_async(path, value.encode(), want),
                         value=value, want=want)

    def step(self):
        choice = self.random.random()
        key = self.random.randrange(KEYS)
        if choice < 0.35:
            self.get(key)
        elif choice < 0.6:
            self.set(key, -1)
        elif choice < 0.75:
            found = self.get(key)
            if found:
                self.set(key, found[1].version)
        elif choice < 0.85:
            began = now()
            if self.call("sync", "/chaos", lambda: self.client.sync_async("/chaos")):
                self.get(key, synced=began)
        elif choice < 0.9:
            value = self.fresh()
            self.call("create", "/chaos/q/n-", lambda: self.client.create_async(
                "/chaos/q/n-", value.encode(), sequence=True, include_data=True), value=value)
        elif choice < 0.95:
            self.call("children", "/chaos/e", lambda: self.client.get_children_async("/chaos/e"))
        else:
            path = f"/chaos/e/{hexed(self.session)}"
            self.call("exists", path, lambda: self.client.exists_async(path))

    def read_and_write(self):
        while not stopped.is_set():
            if self.met():
                self.step()
            time.sleep(PAUSE)

    def lock(self):
        while not stopped.is_set():
            if not self.met():
                time.sleep(PAUSE)
                continue
            lock = self.client.Lock("/chaos/lock-kazoo", self.name)
            try:
                if not lock.acquire(timeout=5):
                    continue
                stat = self.client.exists(f"{lock.path}/{lock.node}")
                if stat is not None:
                    self.hold("kazoo", hexed(stat.owner_session_id))
            except (KazooException, KazooTimeoutError):
                pass
            finally:
                try:
                    lock.release()
                except (KazooException, KazooTimeoutError):
                    pass

    def hold(self, lock, owner):
        """Writes while the lock is held: those of the session that owns it prove that it was."""
        hold = self.fresh()
        path = f"/chaos/held/{self.name}"
        for _ in range(self.random.randrange(1, 8)):
            if stopped.is_set():
                return
            value = self.fresh()
            self.call("set", path, lambda: self.client.set_async(path, value.encode(), -1),
                      value=value, want=-1, lock=lock, hold=hold, owner=owner)
            time.sleep(0.02)


def main():
    first = KazooClient(HOSTS, timeout=SESSION_SECONDS)
    first.start(timeout=60)
    paths = ["/chaos/e", "/chaos/q"]
    paths += [f"/chaos/r/{key}" for key in range(KEYS)]
    paths += [f"/chaos/held/kl{number}" for number in range(LOCKERS)]
    for path in paths:
        first.ensure_path(path)
    first.stop()
    clients = [Client(f"k{number}") for number in range(CLIENTS)]
    lockers = [Client(f"kl{number}") for number in range(LOCKERS)]
    threads = [threading.Thread(target=client.read_and_write) for client in clients]
    threads += [threading.Thread(target=locker.lock) for locker in lockers]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.readline()
    stopped.set()
    for thread in threads:
        thread.join()
    print("stopped", flush=True)
    sys.stdin.read()
    closing.set()
    for each in clients + lockers:
        began = now()
        session = each.session
        each.client.stop()
        each.client.close()
        write(c=each.name, op="closed", s=hexed(session), t0=began, t1=now())
    out.close()


main()

"""kazoo clients that each hold an ephemeral and a lock, whatever becomes of the server.

Prints "ready", then for each line "report" a line a client and "reported".
"""

import logging
import sys

from kazoo.client import KazooClient, KazooState
from kazoo.retry import KazooRetry

logging.basicConfig(level=logging.CRITICAL)


class Session:
    def __init__(self, server, number, session_ms):
        self.path = f"/held/kazoo-{number}"
        self.lost = self.suspended = 0
        self.retry = KazooRetry(max_tries=-1, delay=0.05, backoff=1, deadline=40)
        self.client = KazooClient(hosts=server, timeout=session_ms / 1000)
        self.client.add_listener(self.changed)
        self.client.start(timeout=30)
        self.client.create(self.path, self.path.encode(), ephemeral=True, makepath=True)
        self.lock = self.client.Lock(f"/locks/kazoo-{number}", "kazoo")
        self.lock.acquire()

    def changed(self, state):
        if state == KazooState.LOST:
            self.lost += 1
        elif state == KazooState.SUSPENDED:
            self.suspended += 1

    def report(self):
        stat = self.retry(self.client.exists, self.path)
        owner = stat.ephemeralOwner if stat else 0
        locked = str(self.lock.is_acquired).lower()
        return (
            f"{self.path} lost={self.lost} suspended={self.suspended}"
            f" session={self.client.client_id[0]:#x} owner={owner:#x} locked={locked}"
        )


def main():
    server, clients, session_ms = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    sessions = [Session(server, number, session_ms) for number in range(clients)]
    print("ready", flush=True)
    for _ in sys.stdin:
        for session in sessions:
            print(session.report(), flush=True)
        print("reported", flush=True)
    for session in sessions:
        session.client.stop()


main()

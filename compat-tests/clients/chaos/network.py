"""Hosts of their own, one network namespace each, and what happens to the packets between them.

    network.py SEED HOST ...

Host N has the address 10.77.0.N on a tun device in the namespace hostN; 254 is the namespace that this program was
started in. Every packet comes through here, so that any pair can be cut in either direction, and each host's packets be
late or lost: the kernel's own netem is not in every kernel. Prints "ready"; then answers "done" to each line:

    cut A B                   nothing goes from A to B
    late A MS JITTER PERCENT  what leaves A comes so much later, and so much of it never
    heal                      nothing of this any more
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

HERE = 254
NEW_NETWORK = 0x40000000  # CLONE_NEWNET
SET_INTERFACE = 0x400454CA  # TUNSETIFF
TUN_WITHOUT_HEADER = 0x1001  # IFF_TUN | IFF_NO_PI
# Small enough that a lost packet is not a lost second.
MTU = 9000
# More than this behind one another is lost, as in any queue.
QUEUE = 10_000


def run(*words):
    subprocess.run(words, check=True)


def open_tun(number):
    """A tun device in the namespace that this thread is in."""
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, SET_INTERFACE, struct.pack("16sH14x", b"tun0", TUN_WITHOUT_HEADER))
    for words in (
        f"link set lo up",
        f"addr add 10.77.0.{number}/24 dev tun0",
        f"link set tun0 mtu {MTU} txqueuelen {QUEUE} up",
    ):
        run("ip", *words.split())
    return tun


def tuns(hosts):
    """The devices by the number of their host."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)

    def enter(namespace):
        if libc.setns(namespace, NEW_NETWORK) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    found = {HERE: open_tun(HERE)}
    for host in hosts:
        run("ip", "netns", "add", f"host{host}")
        namespace = os.open(f"/run/netns/host{host}", os.O_RDONLY)
        enter(namespace)
        found[host] = open_tun(host)
        enter(own)
        os.close(namespace)
    return found


class Network:
    def __init__(self, seed, hosts):
        self.random = random.Random(seed)
        self.tuns = tuns(hosts)
        self.numbers = {tun: host for host, tun in self.tuns.items()}
        self.late = []
        self.count = 0
        self.heal()

    def heal(self):
        self.cuts = set()
        self.delays = {}

    def order(self, line):
        words = line.split()
        if words[0] == "cut":
            self.cuts.add((int(words[1]), int(words[2])))
        elif words[0] == "late":
            self.delays[int(words[1])] = tuple(float(word) for word in words[2:5])
        elif words[0] == "heal":
            self.heal()
        else:
            raise ValueError(line)
        print("done", flush=True)

    def pass_on(self, source, packet):
        if packet[0] >> 4 != 4:
            return
        target = packet[19]
        if target not in self.tuns or (source, target) in self.cuts:
            return
        if source in self.delays:
            delay, jitter, lost = self.delays[source]
            if self.random.random() * 100 < lost or len(self.late) > QUEUE:
                return
            due = time.monotonic() + max(0, self.random.gauss(delay, jitter)) / 1000
            self.count += 1
            heapq.heappush(self.late, (due, self.count, source, target, packet))
        else:
            self.write(target, packet)

    def write(self, target, packet):
        try:
            os.write(self.tuns[target], packet)
        except OSError:
            pass  # Its queue is full: lost.

    def serve(self):
        poll = select.epoll()
        for tun in self.numbers:
            poll.register(tun, select.EPOLLIN)
        poll.register(sys.stdin, select.EPOLLIN)
        print("ready", flush=True)
        while True:
            timeout = -1
            if self.late:
                timeout = max(0, self.late[0][0] - time.monotonic())
            for ready, _ in poll.poll(timeout):
                if ready == sys.stdin.fileno():
                    line = sys.stdin.readline()
                    if not line:
                        return
                    self.order(line)
                    continue
                try:
                    for _ in range(64):
                        self.pass_on(self.numbers[ready], os.read(ready, MTU + 64))
                except BlockingIOError:
                    pass
            now = time.monotonic()
            while self.late and self.late[0][0] <= now:
                _, _, source, target, packet = heapq.heappop(self.late)
                if (source, target) not in self.cuts:
                    self.write(target, packet)


Network(int(sys.argv[1]), [int(word) for word in sys.argv[2:]]).serve()

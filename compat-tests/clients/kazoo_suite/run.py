"""kazoo's own test suite against one server or three, several classes at a time, a line per test.

    run.py [--reference CLASSPATH] [--servers N] [TEST ...]

Without --reference it runs ferrokeeper (FERROKEEPER_BIN). The clients of the suite get all servers' addresses. Each line is `test outcome`, with
outcome passed, failed, skipped, or left-out: the tests that left_out.txt names with the reason.
A test that fails is tried once more by itself when all others are done, for the suite waits for
fixed times; `again test` says so. More than five failures are not tried again.
"""

import argparse
import importlib.util
import os
import pathlib
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
SUITE = pathlib.Path(importlib.util.find_spec("kazoo.tests").origin).parent
# Its tests mostly wait.
AT_ONCE = os.environ.get("KAZOO_SUITE_AT_ONCE")
TEST_SECONDS = 120
# More failures than this are not the suite's fixed times.
MOST_AGAIN = 5
# Some wait for a thread, or for an event that came too early, after that time as well.
STILL_SECONDS = TEST_SECONDS + 60


def left_out(servers):
    """Patterns of test names, as re."""
    patterns = []
    for line in (HERE / "left_out.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, reason = line.split(None, 1)
            if servers == 1 or not reason.startswith("three servers:"):
                patterns.append(re.compile(pattern))
    return patterns


def free_ports(count):
    """The first of `count` ports in a row that nothing listens on."""
    for base in range(20000 + os.getpid() % 8000, 32000 - count):
        try:
            for port in range(base, base + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
    sys.exit("no free ports")


def environment(port, directory, reference, servers):
    env = dict(os.environ)
    env.pop("CI", None)
    env["PYTHONPATH"] = str(HERE)
    env["PYTHONWARNINGS"] = "ignore"
    env["TMPDIR"] = directory
    env["ZOOKEEPER_VERSION"] = "3.9.5"
    env["ZOOKEEPER_CLUSTER_SIZE"] = str(servers)
    env["ZOOKEEPER_PORT_OFFSET"] = str(port)
    if reference:
        env["ZOOKEEPER_CLASSPATH"] = reference
        env["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx512m"
    else:
        env["ZOOKEEPER_CLASSPATH"] = "none"
        env["PATH"] = f"{HERE / 'bin'}:{env['PATH']}"
    return env


def pytest(arguments, env, directory, on_line=None):
    """Runs pytest; returns its output. `on_line` gets the plugin's lines as they come."""
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "outcomes"]
    words += ["--timeout", str(TEST_SECONDS), "--rootdir", str(SUITE), *arguments]
    source, sink = os.pipe()
    env = {**env, "OUTCOMES": str(sink)}
    with open(os.path.join(directory, "output"), "w+b") as output:
        child = subprocess.Popen(
            words,
            cwd=directory,
            env=env,
            pass_fds=[sink],
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        os.close(sink)
        with os.fdopen(source) as lines:
            while True:
                # With its servers. Tests without a line have failed.
                watchdog = threading.Timer(STILL_SECONDS, os.killpg, (child.pid, signal.SIGKILL))
                watchdog.start()
                line = lines.readline()
                watchdog.cancel()
                if not line:
                    break
                if on_line:
                    on_line(line.rstrip("\n"))
        child.wait()
        output.seek(0)
        return output.read().decode(errors="replace")


class Run:
    def __init__(self, reference, servers):
        self.reference = reference
        self.servers = servers
        self.events = queue.Queue()
        self.units = queue.Queue()
        self.directory = tempfile.mkdtemp(prefix="kazoo-suite.")

    def names(self):
        env = environment(20000, self.directory, self.reference, self.servers)
        text = pytest(["--collect-only", "-q", str(SUITE)], env, self.directory)
        names = re.findall(r"^(test_\w+\.py::\S+)$", text, re.MULTILINE)
        if not names:
            sys.exit(f"no tests found:\n{text}")
        return names

    def work(self, number, port):
        directory = os.path.join(self.directory, str(number))
        os.mkdir(directory)
        env = environment(port, directory, self.reference, self.servers)
        while True:
            try:
                tests = self.units.get_nowait()
            except queue.Empty:
                break
            words = [str(SUITE / test) for test in tests]
            output = pytest(words, env, directory, self.events.put)
            self.events.put((tests, output))
        self.events.put(None)

    def perform(self, units, workers, ports):
        """Runs the units; returns outcome and output of each test."""
        for unit in units:
            self.units.put(unit)
        outcomes, outputs = {}, {}
        directories = len(os.listdir(self.directory))
        for number in range(workers):
            words = (directories + number, ports + 10 * self.servers * number)
            threading.Thread(target=self.work, args=words, daemon=True).start()
        while workers:
            try:
                event = self.events.get(timeout=15)
            except queue.Empty:
                print("...", flush=True)
                continue
            if event is None:
                workers -= 1
            elif isinstance(event, str):
                name, outcome = event.split(" ")
                outcomes[name] = outcome
                print(".", flush=True)
            else:
                tests, output = event
                outputs.update((test, output) for test in tests)
        for unit in units:
            for test in unit:
                outcomes.setdefault(test, "failed")
        return outcomes, outputs


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--reference", metavar="CLASSPATH")
    arguments.add_argument("--servers", metavar="N", type=int, default=1)
    arguments.add_argument("tests", nargs="*")
    arguments = arguments.parse_args()
    run = Run(arguments.reference, arguments.servers)
    at_once = int(AT_ONCE or (4 if arguments.servers == 1 else 2))
    patterns = left_out(arguments.servers)
    units, left = {}, []
    for name in arguments.tests or run.names():
        if any(pattern.search(name) for pattern in patterns) and not arguments.tests:
            left.append(name)
        else:
            # The server starts anew for each class.
            units.setdefault(name.rsplit("::", 1)[0], []).append(name)
    ports = free_ports(10 * arguments.servers * at_once)
    longest_first = sorted(units.values(), key=len, reverse=True)
    outcomes, outputs = run.perform(longest_first, at_once, ports)
    failed = sorted(name for name, outcome in outcomes.items() if outcome == "failed")
    if len(failed) > MOST_AGAIN:
        print(f"{len(failed)} tests failed, more than {MOST_AGAIN}: none is tried again")
    elif failed:
        again, outputs = run.perform([[name] for name in failed], 1, ports)
        outcomes.update(again)
        for name in failed:
            print(f"again {name}")
        failed = [name for name in failed if again[name] == "failed"]
    # The tests of a class have one output.
    for output in dict.fromkeys(outputs.get(name, f"{name} was never run") for name in failed):
        print(output)
    shutil.rmtree(run.directory, ignore_errors=True)
    for name in sorted(outcomes):
        print(f"{name} {outcomes[name]}")
    for name in sorted(left):
        print(f"{name} left-out")


main()

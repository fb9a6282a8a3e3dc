#!/usr/bin/env python3
"""Writes the expected outputs of src/engine/testdata/*.txt, asked of Apache ZooKeeper itself.

    record_transcripts.py HOST:PORT file.txt...             a server that is running, with a fresh dataDir
    record_transcripts.py --java CLASSPATH file.txt...      a fresh server for each file
    add --check to compare instead of writing

A file is a list of blocks: comments, a command, `----`, what the server said. Blocks marked `# ours` state where this
project differs on purpose; they are not sent. `# server: name=value ...` on the first line names properties that the
server must run with. The language is described in src/engine/transcript_test.rs, which runs the same files.
"""
import base64
import difflib
import hashlib
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

TIMEOUT_MS = 30000
SHORT_MS = 1000

ERRORS = {
    -2: "RuntimeInconsistency", -5: "MarshallingError", -6: "Unimplemented", -8: "BadArguments",
    -12: "UnknownSession", -101: "NoNode", -102: "NoAuth", -103: "BadVersion",
    -108: "NoChildrenForEphemerals", -110: "NodeExists", -111: "NotEmpty", -112: "SessionExpired",
    -114: "InvalidAcl", -115: "AuthFailed", -121: "NoWatcher", -123: "ReconfigDisabled",
    -125: "QuotaExceeded",
}
MODES = {
    "persistent": 0, "ephemeral": 1, "sequential": 2, "ephemeral_sequential": 3, "container": 4,
    "ttl": 5, "sequential_ttl": 6,
}
OPS = {
    "create": 1, "delete": 2, "exists": 3, "get": 4, "set": 5, "getacl": 6, "setacl": 7, "ls": 8,
    "sync": 9, "ping": 11, "ls2": 12, "check": 13, "multi": 14, "create2": 15, "reconfig": 16,
    "checkwatches": 17, "removewatches": 18, "container": 19, "ttl": 21, "multiread": 22,
    "addauth": 100, "setwatches": 101, "ephemerals": 103, "count": 104, "setwatches2": 105,
    "addwatch": 106, "whoami": 107, "close": -11,
}
WATCH_TYPES = {"children": 1, "data": 2, "any": 3, "persistent": 4, "recursive": 5}
EVENTS = {1: "NodeCreated", 2: "NodeDeleted", 3: "NodeDataChanged", 4: "NodeChildrenChanged"}
PERMS = "rwcda"


# ---- the language ----

def tokens(line):
    """Words; quotes and brackets hold blanks together."""
    out, word, quoted, depth, escaped = [], "", False, 0, False
    for char in line:
        if quoted:
            word += char
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                quoted = False
        elif char == '"':
            word, quoted = word + char, True
        elif char == " " and depth == 0:
            if word:
                out.append(word)
            word = ""
        else:
            depth += {"[": 1, "]": -1}.get(char, 0)
            word += char
    return out + [word] if word else out


def value(word):
    """The bytes of a word; None for null."""
    if word == "null":
        return None
    if not word.startswith('"'):
        return word.encode()
    out, text, i = b"", word[1:-1], 0
    while i < len(text):
        if text[i] != "\\":
            out += text[i].encode()
            i += 1
        elif text[i + 1] == "x":
            out += bytes([int(text[i + 2:i + 4], 16)])
            i += 4
        elif text[i + 1] == "u":
            end = text.index("}", i)
            out += chr(int(text[i + 3:end], 16)).encode("utf-8", "surrogatepass")
            i = end + 1
        else:
            out += {"n": b"\n"}.get(text[i + 1], text[i + 1].encode())
            i += 2
    return out


def items(word):
    return [item for item in word[1:-1].split(",") if item]


# ---- jute ----

def i32(number):
    return struct.pack(">i", number)


def i64(number):
    return struct.pack(">q", number)


def buf(data):
    return i32(-1) if data is None else i32(len(data)) + data


def vec(parts):
    return i32(-1) if parts is None else i32(len(parts)) + b"".join(parts)


def acl(word):
    if word == "null":
        return i32(-1)
    parts = []
    for item in items(word):
        scheme, rest = item.split(":", 1)
        ident, perms = rest.rsplit(":", 1)
        if perms.lstrip("-").isdigit():
            bits = int(perms)
        else:
            bits = sum(1 << PERMS.index(perm) for perm in perms if perm != "_")
        parts.append(i32(bits) + buf(value(scheme)) + buf(value(ident)))
    return vec(parts)


def arguments(words):
    plain = [word for word in words if not re.match(r"[a-z]+=", word)]
    named = dict(word.split("=", 1) for word in words if re.match(r"[a-z]+=", word))
    return plain, named


def body(op, words, ranks):
    """The body of a request."""
    plain, named = arguments(words)
    version = i32(int(named.get("version", "-1")))
    path = buf(value(plain[0])) if plain else b""
    if op in ("create", "create2", "container", "ttl"):
        mode = named.get("mode", {"container": "container", "ttl": "ttl"}.get(op, "persistent"))
        flags = i32(MODES[mode] if mode in MODES else int(mode))
        data = buf(value(plain[1])) if len(plain) > 1 else buf(b"")
        out = path + data + acl(named.get("acl", "[world:anyone:31]")) + flags
        return out + i64(int(named.get("ttl", "1000"))) if op == "ttl" else out
    if op in ("delete", "check"):
        return path + version
    if op in ("exists", "get", "ls", "ls2"):
        return path + (b"\1" if "watch" in plain[1:] else b"\0")
    if op == "set":
        return path + buf(value(plain[1])) + version
    if op == "setacl":
        return path + acl(plain[1]) + version
    if op in ("getacl", "sync", "ephemerals", "count"):
        return path
    if op in ("checkwatches", "removewatches"):
        return path + i32(WATCH_TYPES.get(plain[1]) or int(plain[1]))
    if op == "addwatch":
        mode = {"persistent": 0, "recursive": 1}.get(plain[1])
        return path + i32(int(plain[1]) if mode is None else mode)
    if op in ("setwatches", "setwatches2"):
        since = named.get("since", "0")
        lists = ["data", "exist", "child"]
        lists += ["persistent", "recursive"] if op == "setwatches2" else []
        out = i64(ranks.zxid(since))
        for name in lists:
            word = named.get(name, "[]")
            out += vec(None if word == "null" else [buf(value(item)) for item in items(word)])
        return out
    if op == "addauth":
        return i32(0) + path + buf(value(plain[1]))
    if op == "reconfig":
        return buf(None) + buf(None) + buf(value(plain[0])) + i64(-1)
    if op in ("ping", "whoami", "close"):
        return b""
    raise ValueError(op)


def multi_body(lines, ranks):
    out = b""
    for line in lines:
        op, *words = tokens(line)
        if op == "raw":
            code, payload = int(words[0]), bytes.fromhex(words[1]) if len(words) > 1 else b""
        else:
            code, payload = OPS[op], body(op, words, ranks)
        out += i32(code) + b"\0" + i32(-1) + payload
    return out + i32(-1) + b"\1" + i32(-1)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        assert self.at <= len(self.data), "reply ends early"
        return self.data[self.at - count:self.at]

    def i32(self):
        return struct.unpack(">i", self.take(4))[0]

    def i64(self):
        return struct.unpack(">q", self.take(8))[0]

    def buf(self):
        length = self.i32()
        return None if length == -1 else self.take(length)

    def vec(self, read):
        return [read() for _ in range(self.i32())]


# ---- what is shown ----

def quoted(data):
    if data is None:
        return "null"
    out = ""
    for byte in data:
        if chr(byte) in '"\\':
            out += "\\" + chr(byte)
        elif 32 <= byte < 127:
            out += chr(byte)
        else:
            out += "\\x%02x" % byte
    return '"' + out + '"'


def shown(path):
    """A path as it is, or quoted where it has to be."""
    if path is None or path == b"" or path == b"null" or any(
            byte <= 32 or byte >= 127 or chr(byte) in '"\\[],' for byte in path):
        return quoted(path)
    return path.decode()


def listed(paths):
    return "[" + ", ".join(sorted(shown(path) for path in paths)) + "]"


def shown_perms(bits):
    if not 0 < bits < 32:
        return "_" if bits == 0 else str(bits)
    return "".join(perm for i, perm in enumerate(PERMS) if bits & 1 << i)


class Ranks:
    """Names for zxids: the first that is seen is z1."""

    def __init__(self):
        self.zxids, self.sessions = [], {}
        # Requests of a pipeline may or may not share a millisecond.
        self.with_times = True

    def name(self, zxid):
        if zxid <= 0:
            return str(zxid)
        if zxid not in self.zxids:
            self.zxids.append(zxid)
        return "z%d" % (self.zxids.index(zxid) + 1)

    def zxid(self, name):
        return self.zxids[int(name[1:]) - 1] if name.startswith("z") else int(name)

    def stat(self, reader):
        czxid, mzxid, ctime, mtime = (reader.i64() for _ in range(4))
        version, cversion, aversion = (reader.i32() for _ in range(3))
        owner = reader.i64()
        length, children = reader.i32(), reader.i32()
        pzxid = reader.i64()
        times = "times=0" if ctime == mtime == 0 else "mtime=ctime" if mtime == ctime else \
            "mtime>ctime" if mtime > ctime else "mtime<ctime"
        times = " " + times if self.with_times else ""
        czxid, mzxid, pzxid = self.name(czxid), self.name(mzxid), self.name(pzxid)
        return (f"czxid={czxid} mzxid={mzxid} pzxid={pzxid} version={version} cversion={cversion} "
                f"aversion={aversion} owner={self.sessions.get(owner, owner)} length={length} "
                f"children={children}{times}")


def shown_acl(reader, sort):
    def one():
        bits, scheme, ident = reader.i32(), reader.buf(), reader.buf()
        return f"{scheme.decode()}:{ident.decode()}:{shown_perms(bits)}"
    entries = reader.vec(one)
    return "[" + ", ".join(sorted(entries) if sort else entries) + "]"


def multi_results(reader, ranks):
    out = []
    while True:
        kind, done, err = reader.i32(), reader.take(1) != b"\0", reader.i32()
        if done:
            assert (kind, err) == (-1, -1)
            return out or ["(empty)"]
        if kind == -1:
            assert reader.i32() == err
            out.append("undone" if err == 0 else "failed " + ERRORS[err])
            continue
        assert err == 0, err
        if kind == 1:
            out.append("create " + shown(reader.buf()))
        elif kind == 15:
            path = reader.buf()
            out.append("create2 " + shown(path) + " " + ranks.stat(reader))
        elif kind == 2:
            out.append("delete")
        elif kind == 5:
            out.append("set " + ranks.stat(reader))
        elif kind == 13:
            out.append("check")
        elif kind == 4:
            data = reader.buf()
            out.append("get " + quoted(data) + " " + ranks.stat(reader))
        elif kind == 8:
            out.append("ls " + listed(reader.vec(reader.buf)))
        else:
            raise ValueError(kind)


def reply_lines(op, words, reader, ranks):
    if op == "create":
        return [shown(reader.buf())]
    if op in ("create2", "container", "ttl"):
        path = reader.buf()
        return [shown(path) + " " + ranks.stat(reader)]
    if op in ("exists", "set", "setacl"):
        return [ranks.stat(reader)]
    if op == "get":
        data = reader.buf()
        return [quoted(data) + " " + ranks.stat(reader)]
    if op == "getacl":
        entries = shown_acl(reader, "sorted" in words)
        return [entries + " " + ranks.stat(reader)]
    if op == "ls":
        return [listed(reader.vec(reader.buf))]
    if op == "ls2":
        names = reader.vec(reader.buf)
        return [listed(names) + " " + ranks.stat(reader)]
    if op == "sync":
        return [shown(reader.buf())]
    if op in ("multi", "multiread"):
        return multi_results(reader, ranks)
    if op == "ephemerals":
        return [listed(reader.vec(reader.buf))]
    if op == "count":
        return [str(reader.i32())]
    if op == "addwatch":
        assert reader.i32() == 0
        return ["ok"]
    if op == "whoami":
        infos = reader.vec(lambda: reader.buf().decode() + ":" + reader.buf().decode())
        return ["[" + ", ".join(sorted(infos)) + "]"]
    return ["ok"]


# ---- the wire ----

class Connection:
    def __init__(self, address, session=0, password=b"\0" * 16, timeout_ms=TIMEOUT_MS):
        self.socket = socket.create_connection(address)
        self.socket.settimeout(20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.xid, self.open = 0, True
        self.send(i32(0) + i64(0) + i32(timeout_ms) + i64(session) + buf(password) + b"\0")
        reader = Reader(self.frame())
        reader.i32()
        reader.i32()
        self.session, self.password = reader.i64(), reader.buf()

    def send(self, *payloads):
        self.socket.sendall(b"".join(buf(payload) for payload in payloads))

    def exactly(self, count):
        out = b""
        while len(out) < count:
            part = self.socket.recv(count - len(out))
            if not part:
                raise EOFError
            out += part
        return out

    def frame(self):
        return self.exactly(struct.unpack(">i", self.exactly(4))[0])

    def frames_until_reply(self, xid):
        """Events, then the reply: (events, reply or None when the connection ended)."""
        events = []
        while True:
            try:
                reader = Reader(self.frame())
            except (EOFError, ConnectionError):
                self.open = False
                return events, None
            got, zxid, err = reader.i32(), reader.i64(), reader.i32()
            if got == -1:
                kind, state, path = reader.i32(), reader.i32(), reader.buf()
                assert state == 3 and err == 0
                events.append((kind, path, zxid))
            else:
                assert got == xid, (got, xid)
                return events, (err, reader)

    def is_ended(self):
        """Whether the server closes the connection right behind its reply."""
        self.socket.settimeout(0.15)
        try:
            return self.socket.recv(1) == b""
        except socket.timeout:
            return False
        except ConnectionError:
            return True
        finally:
            self.socket.settimeout(20)


class Recorder:
    def __init__(self, address):
        self.address, self.connections, self.ranks = address, {}, Ranks()

    def connection(self, name):
        if name not in self.connections:
            self.opened(name, Connection(self.address))
        return self.connections[name]

    def opened(self, name, connection):
        self.connections[name] = connection
        self.ranks.sessions[connection.session] = name

    def event(self, event):
        kind, path, zxid = event
        return f"event {EVENTS[kind]} {shown(path)} {self.ranks.name(zxid)}"

    def others(self, name, sort):
        """What the other sessions were told: everything before the answer to a ping."""
        out = []
        for other, connection in sorted(self.connections.items()):
            if other == name:
                continue
            connection.send(i32(-2) + i32(11))
            events, reply = connection.frames_until_reply(-2)
            lines = [f"{other} {self.event(event)}" for event in events]
            out += sorted(lines) if sort else lines
            assert reply is not None, f"{other} was closed"
        return out

    def request(self, words, lines, connection):
        """The payload of a request, and how to show its reply."""
        op = words[0]
        if op == "raw":
            code, payload = int(words[1]), bytes.fromhex(words[2]) if len(words) > 2 else b""
            names = {code: name for name, code in OPS.items()}
            op = names.get(code, "raw")
        elif op in ("multi", "multiread"):
            code, payload = OPS[op], multi_body(lines, self.ranks)
        else:
            code, payload = OPS[op], body(op, words[1:], self.ranks)
        connection.xid += 1
        xid = {11: -2, 100: -4, 101: -8, 105: -8}.get(code, connection.xid)
        return op, xid, i32(xid) + i32(code) + payload

    def answer(self, op, words, connection, xid):
        events, reply = connection.frames_until_reply(xid)
        lines = [self.event(event) for event in events]
        if op == "close":
            lines.sort()
        if reply is None:
            return lines + ["closed"]
        err, reader = reply
        lines += ["error " + ERRORS[err]] if err else reply_lines(op, words, reader, self.ranks)
        if op == "close" or err in (-6, -115):
            if connection.is_ended():
                connection.open = False
                lines += ["closed"]
        return lines

    def run(self, command):
        # Every change has a millisecond of its own.
        time.sleep(0.003)
        words, lines = tokens(command[0].rstrip(" {")), [line.strip() for line in command[1:-1]]
        if words[0] == "expire":
            return self.expire(words[1])
        name, words = words[0], words[1:]
        if words[0] == "connect":
            self.opened(name, Connection(self.address, timeout_ms=SHORT_MS))
            return ["ok"]
        if words[0] == "reattach":
            old = self.connection(name)
            old.socket.close()
            time.sleep(0.3)
            self.opened(name, Connection(self.address, old.session, old.password))
            renewed = self.connections[name]
            return ["ok" if renewed.session == old.session else "refused"]
        connection = self.connection(name)
        if words[0] == "pipelined":
            parts = self.pipeline(lines)
            requests = [(part, *self.request(part, inner, connection)) for part, inner in parts]
            connection.send(*(payload for _, _, _, payload in requests))
            out = []
            self.ranks.with_times = False
            for part, op, xid, _ in requests:
                if not connection.open:
                    break
                out += self.answer(op, part, connection, xid)
            self.ranks.with_times = True
        else:
            op, xid, payload = self.request(words, lines, connection)
            connection.send(payload)
            out = self.answer(op, words, connection, xid)
        if not connection.open:
            del self.connections[name]
        return out + self.others(name, words[0] == "close")

    @staticmethod
    def pipeline(lines):
        """The requests of a pipeline; multis hold lines of their own."""
        parts, at = [], 0
        while at < len(lines):
            words, inner = tokens(lines[at].rstrip(" {")), []
            if lines[at].endswith("{"):
                end = lines.index("}", at)
                inner, at = lines[at + 1:end], end
            parts.append((words, inner))
            at += 1
        return parts

    def expire(self, name):
        expiring = self.connections.pop(name)
        ended, deadline = False, time.time() + 20
        out = []
        while not ended:
            assert time.time() < deadline, "the session does not expire"
            out += self.others(name, True)
            ended = expiring.is_ended()
        return sorted(out + self.others(name, True))


# ---- files ----

def blocks(text):
    """(lines before the output, output lines) for each block, blank lines between them."""
    for block in re.split(r"\n\n+", text.strip("\n")):
        head, _, tail = block.partition("\n----")
        yield head.split("\n"), tail.strip("\n").split("\n") if tail.strip("\n") else []


def record(address, text):
    recorder = Recorder(address)
    out = []
    for head, expected in blocks(text):
        command = [line for line in head if not line.startswith("#")]
        if command:
            if not any(line.startswith("# ours") for line in head):
                try:
                    expected = recorder.run(command)
                except Exception as error:
                    raise RuntimeError(f"at {command}") from error
            head = head + ["----"] + expected
        out.append("\n".join(head))
    for connection in recorder.connections.values():
        connection.socket.close()
    return "\n\n".join(out) + "\n"


class Server:
    """A fresh Apache ZooKeeper."""

    def __init__(self, classpath, properties):
        self.home = tempfile.mkdtemp(prefix="transcripts-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = probe.getsockname()
        config = os.path.join(self.home, "zoo.cfg")
        native = {k: v for k, v in properties.items() if k == "reconfigEnabled"}
        with open(config, "w") as out:
            out.write(f"tickTime=500\nmaxSessionTimeout=60000\ndataDir={self.home}/data\n"
                      f"clientPortAddress=127.0.0.1\nclientPort={self.address[1]}\n")
            out.writelines(f"{name}={value}\n" for name, value in native.items())
        defines = {"extendedTypesEnabled": "true", "admin.enableServer": "false", **properties}
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dzookeeper.preAllocSize=64"]
        command += [f"-Dzookeeper.{name}={value}" for name, value in defines.items()]
        command += ["-cp", classpath, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config]
        with open(os.path.join(self.home, "log"), "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(300):
            try:
                with socket.create_connection(self.address) as probe:
                    probe.sendall(b"srvr")
                    if probe.recv(100).startswith(b"Zookeeper version"):
                        return
            except OSError:
                pass
            time.sleep(0.1)
        raise RuntimeError(f"no server, see {self.home}/log")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.home)


def properties_of(text):
    first = text.split("\n", 1)[0]
    if not first.startswith("# server:"):
        return {}
    return dict(word.split("=", 1) for word in first.split()[2:])


def main(arguments):
    check = "--check" in arguments
    arguments = [argument for argument in arguments if argument != "--check"]
    classpath = arguments.pop(1) if arguments and arguments[0] == "--java" else None
    target, *files = arguments
    differing = 0
    for name in files:
        with open(name) as source:
            text = source.read()
        if classpath:
            server = Server(classpath, properties_of(text))
            try:
                recorded = record(server.address, text)
            finally:
                server.stop()
        else:
            host, port = target.rsplit(":", 1)
            recorded = record((host, int(port)), text)
        print(name, "same" if recorded == text else "changed", flush=True)
        differing += recorded != text
        if check:
            lines = [content.splitlines(keepends=True) for content in (text, recorded)]
            sys.stdout.writelines(difflib.unified_diff(*lines, "recorded", "answered now"))
        else:
            with open(name, "w") as out:
                out.write(recorded)
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs a script of zk-shell's commands and prints what they say, step by step.

Arguments: the script, HOST:PORT. A line that begins with "== " begins a step; all others are
commands. What a run cannot repeat is replaced: times; zxids and session ids are the caller's.
"""

import io
import re
import sys

from zk_shell.shell import Shell


def main():
    script, server = sys.argv[1:]
    said = io.StringIO()
    # Its commands print to what they are given, or to the standard output.
    sys.stdout, out = said, sys.stdout
    shell = Shell([server], 10, said, setup_readline=False, asynchronous=False)
    with open(script, encoding="utf-8") as lines:
        for line in lines.read().splitlines():
            if not line or line.startswith("#"):
                continue
            if line.startswith("== "):
                out.write(line + "\n")
                continue
            said.seek(0)
            said.truncate()
            shell.onecmd(line.replace("@server", server))
            text = said.getvalue().replace(server, "HOST:PORT")
            # Lists come in the server's order, which means nothing.
            lines_said = text.splitlines()
            if line.split()[0] in UNORDERED:
                lines_said.sort()
            for each in lines_said:
                out.write(normal(each) + "\n")
            out.flush()
    shell.onecmd("disconnect")


UNORDERED = set(
    "ls tree child_count find ifind grep igrep child_matches get_acls diff cp mirror".split()
)


def normal(line):
    """A stat's times, as the transcript knows them from zkCli."""
    line = re.sub(r"\b([cm])time=\d+", r"\1time=T", line)
    line = re.sub(r"([Tt]ook) [\d.]+ sec", r"\1 T sec", line)
    return re.sub(r"\x1b\[\d*m", "", line)


main()

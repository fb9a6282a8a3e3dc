#!/usr/bin/env python3
"""aiozk's own test suite: prints `ok NAME` for each test that passes, `failed NAME: why` for one that does not.

Argument: HOST:PORT of a server.
"""
import os
import pathlib
import sys

import aiozk.test
import pytest

SUITE = pathlib.Path(aiozk.test.__file__).parent


class Told:
    """What pytest reports, a line for each test; a test that is skipped says nothing."""

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.rsplit("/", 1)[-1].replace("::", " ")
        if report.when == "call" and report.passed:
            print(f"ok {name}", flush=True)
        elif report.failed:
            why = str(report.longrepr).strip().splitlines()[-1]
            print(f"failed {name}: {report.when}: {why}", flush=True)


def main():
    os.environ["ZK_HOST"], os.environ["ZK_PORT"] = sys.argv[1].rsplit(":", 1)
    # Its own options want a plugin that measures coverage.
    options = ["-p", "no:terminal", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(SUITE)]
    options += ["-o", "asyncio_mode=auto", str(SUITE)]
    pytest.main(options, plugins=[Told()])


if __name__ == "__main__":
    main()

"""Two members of Patroni with a PostgreSQL each, and what happens when the leader is lost.

Prints "ok NAME" for each check that holds, or "failed NAME: why". Argument: HOST:PORT of a server,
or of several with commas.
Runs on the system's Python, which has Debian's Patroni and psycopg2.
"""

import glob
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import psycopg2
import yaml

DEADLINE = 120.0
# Patroni's session, and with it the life of a lost leader's lock.
TTL = 6
# PostgreSQL refuses to run as root; Debian's package brings this user.
USER = 'postgres' if os.geteuid() == 0 else None


def bin_dir():
    found = glob.glob('/usr/lib/postgresql/*/bin/postgres')
    return os.path.dirname(max(found, key=lambda path: int(path.split('/')[4])))


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(('127.0.0.1', 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def until(what, condition):
    """Waits for a value of `condition` that is true."""
    start = time.monotonic()
    last = None
    while time.monotonic() < start + DEADLINE:
        try:
            value = condition()
            if value:
                return value
        except (OSError, psycopg2.Error) as error:
            last = error
        time.sleep(0.1)
    raise AssertionError(f'not within {DEADLINE:.0f} s: {what} ({last})')


class Member:
    def __init__(self, name, folder, server, ports):
        self.name = name
        self.folder = folder
        self.port, self.rest_port = ports
        self.data = os.path.join(folder, name)
        self.config = os.path.join(folder, f'{name}.yml')
        self.log = os.path.join(folder, f'{name}.log')
        self.process = None
        with open(self.config, 'w') as out:
            yaml.safe_dump(self.settings(server), out)

    def settings(self, server):
        address = f'127.0.0.1:{self.port}'
        rest = f'127.0.0.1:{self.rest_port}'
        return {
            'scope': 'failover',
            'name': self.name,
            'restapi': {'listen': rest, 'connect_address': rest},
            'zookeeper': {'hosts': server.split(',')},
            'bootstrap': {
                'dcs': {
                    'ttl': TTL,
                    'loop_wait': 1,
                    'retry_timeout': 2,
                    'postgresql': {'use_pg_rewind': True},
                },
                'initdb': [{'encoding': 'UTF8'}, 'data-checksums', 'no-sync'],
                'pg_hba': [
                    'local all all trust',
                    'host all all 127.0.0.1/32 scram-sha-256',
                    'host replication all 127.0.0.1/32 scram-sha-256',
                ],
            },
            'postgresql': {
                'listen': address,
                'connect_address': address,
                'data_dir': self.data,
                'bin_dir': bin_dir(),
                'pgpass': os.path.join(self.folder, f'{self.name}.pgpass'),
                'authentication': {
                    'superuser': {'username': 'postgres', 'password': 'one'},
                    'replication': {'username': 'replicator', 'password': 'two'},
                },
                'parameters': {
                    'unix_socket_directories': self.folder,
                    'password_encryption': 'scram-sha-256',
                    'shared_buffers': '16MB',
                },
            },
        }

    def start(self):
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen(
                ['/usr/bin/patroni', self.config], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, cwd=self.folder, **as_user())

    def postmaster(self):
        """The process id of its PostgreSQL, 0 without one."""
        try:
            with open(os.path.join(self.data, 'postmaster.pid')) as lines:
                pid = int(lines.readline())
            with open(f'/proc/{pid}/cmdline') as line:
                return pid if self.data in line.read() else 0
        except (OSError, ValueError):
            return 0

    def kill(self):
        """Patroni and PostgreSQL end by SIGKILL, Patroni first: it would start the other anew."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None
        pid = self.postmaster()
        if pid:
            os.kill(pid, signal.SIGKILL)
            until('PostgreSQL has ended', lambda: not self.postmaster())

    def state(self):
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{self.rest_port}/patroni') as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def is_leader(self):
        # Patroni says 200 there only to who holds the lock.
        try:
            with urllib.request.urlopen(f'http://127.0.0.1:{self.rest_port}/leader') as reply:
                return reply.status == 200
        except OSError:
            return False

    def is_replica(self):
        state = self.state()
        return state['role'] == 'replica' and state['state'] == 'running'

    def sql(self, statement):
        connection = psycopg2.connect(
            host='127.0.0.1', port=self.port, user='postgres', password='one', dbname='postgres',
            connect_timeout=5)
        try:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else None
        finally:
            connection.close()

    def rows(self):
        return [row[0] for row in self.sql('SELECT n FROM kept ORDER BY n')]


def as_user():
    if USER is None:
        return {}
    return {'user': USER, 'group': USER, 'extra_groups': []}


def failover(members, check):
    first, second = members
    first.start()
    until('the first member leads', first.is_leader)
    second.start()
    until('the second member follows', second.is_replica)
    assert not second.is_leader(), 'two leaders'
    check('leader-elected')

    first.sql('CREATE TABLE kept (n integer)')
    first.sql('INSERT INTO kept VALUES (1)')
    until('the row is replicated', lambda: second.rows() == [1])
    check('row-replicated')

    first.kill()
    until('the other one leads', second.is_leader)
    until('it takes writes', lambda: second.sql('SELECT pg_is_in_recovery()') == [(False,)])
    check('replica-promoted')
    assert second.rows() == [1], second.rows()
    second.sql('INSERT INTO kept VALUES (2)')
    check('row-kept')

    first.start()
    until('the lost one is back', first.is_replica)
    until('it has the new row', lambda: first.rows() == [1, 2])
    assert second.is_leader() and not first.is_leader(), 'the leader changed'
    check('old-leader-follows')

    done = subprocess.run(
        ['/usr/bin/patronictl', '-c', first.config, 'switchover', '--force', '--leader', second.name,
         '--candidate', first.name, 'failover'],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=first.folder, **as_user())
    assert done.returncode == 0, done.stdout + done.stderr
    until('the first leads again', first.is_leader)
    first.sql('INSERT INTO kept VALUES (3)')
    until('the second follows it', lambda: second.is_replica() and second.rows() == [1, 2, 3])
    check('switchover')


def main():
    folder = tempfile.mkdtemp(prefix='patroni.')
    ports = free_ports(4)
    members = []
    step = ['leader-elected', 'row-replicated', 'replica-promoted', 'row-kept',
            'old-leader-follows', 'switchover']

    def check(name):
        assert step.pop(0) == name
        print(f'ok {name}', flush=True)

    try:
        members = [Member('first', folder, sys.argv[1], ports[:2]),
                   Member('second', folder, sys.argv[1], ports[2:])]
        if USER is not None:
            owner = pwd.getpwnam(USER)
            for path in [folder] + glob.glob(f'{folder}/*'):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        failover(members, check)
    except Exception as error:  # Whatever it is, the members end and the reason is told.
        reason = ' '.join(str(error).split())
        for member in members:
            try:
                with open(member.log, errors='replace') as log:
                    print(f'--- log of {member.name}:', *log.read().splitlines()[-40:], sep='\n')
            except OSError as missing:
                print(missing)
        print(f'failed {step[0]}: {type(error).__name__} {reason}', flush=True)
    finally:
        for member in members:
            member.kill()
        shutil.rmtree(folder)


if __name__ == '__main__':
    main()

"""A real PostgreSQL of the test run, with a directory, port and superuser of its own."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.harness.support import eventually

PASSWORD = "correct horse"


def programs() -> Path:
    """The directory of ``initdb`` and ``postgres``: Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    assert newest, "PostgreSQL is missing; install it: apt-get install postgresql"
    return newest[-1].parent


class Postgres:
    """A server on a free port. It cannot run as root, and then runs as the user of its package."""

    def __init__(self) -> None:
        self._programs = programs()
        self._root = Path(tempfile.mkdtemp(prefix="cooperator-postgres-"))
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self._root, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self._tls = False
        secret = self._root / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._run("initdb", "-D", self._data, "-U", "tester", "-A", "scram-sha-256", "--pwfile", str(secret))

    @property
    def _data(self) -> str:
        return str(self._root / "data")

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    @property
    def config(self) -> dict[str, str]:
        """A connector's options. The password is no reference, since runtimes get resolved values."""
        return {"connection.url": self.url, "connection.user": "tester", "connection.password": PASSWORD}

    def encrypt(self, certificate: Path, key: Path, authority: Path, certified: str) -> None:
        """Offers TLS from the next start on. The role ``certified`` logs in by a certificate of
        ``authority``."""
        for source, name in ((certificate, "server.crt"), (key, "server.key"), (authority, "clients.crt")):
            target = Path(self._data) / name
            shutil.copy(source, target)
            target.chmod(0o600)
            if self._as:
                os.chown(target, self._as["user"], self._as["group"])
        logins = Path(self._data) / "pg_hba.conf"
        logins.write_text(f"hostssl all {certified} all cert\n{logins.read_text()}")
        self._tls = True

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self._root,
            "fsync": "off",
            **({"ssl": "on", "ssl_ca_file": "clients.crt"} if self._tls else {"ssl": "off"}),
        }
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._root / "log").open("ab") as output:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", self._data, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._root,
                start_new_session=True,
                **self._as,
            )
        eventually(self._is_up, 60, "PostgreSQL answers")

    def stop(self) -> None:
        """Stops at once, as in a crash: connections break, and the next start recovers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(30)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._root)

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a statement, which is committed; an empty list if it has none."""
        with psycopg.connect(self.url.removeprefix("jdbc:"), user="tester", password=PASSWORD) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def session(self) -> "Iterator[psycopg.Connection[Any]]":
        """Another session's transaction; it releases its locks at the end."""
        url = self.url.removeprefix("jdbc:")
        with psycopg.connect(url, user="tester", password=PASSWORD) as connection:
            yield connection
            connection.rollback()

    def count(self, table: str) -> int:
        """The number of rows of a table; 0 if it does not exist."""
        if self.query("SELECT to_regclass(%s)::text", table) == [(None,)]:
            return 0
        [(count,)] = self.query(f"SELECT count(*) FROM {table}")
        return int(count)

    def _is_up(self) -> bool:
        try:
            return self.query("SELECT 1") == [(1,)]
        except psycopg.OperationalError:
            return False

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self._root, **self._as)

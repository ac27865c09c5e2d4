"""Real servers for the tests, of Debian's packages `redis-server` and `postgresql`, each on a free port of 127.0.0.1.

A server keeps its data in a folder of its own and is ended by the test run that started it. Other places of the
programs can be named: PKV_REDIS_SERVER (the program), PKV_POSTGRES_BIN (the folder of initdb and postgres).
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "pa55-w0rd-of-the-tests"
USER = "pkv_tests"
PATIENCE = 60  # seconds for a server to begin or to end


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A PostgreSQL server.

    Attributes:
        port: Where it listens on 127.0.0.1.
    """

    port: int

    def dsn(self, *, password: str = PASSWORD, options: str = "") -> str:
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/postgres?connect_timeout=30{options}"


@contextmanager
def redis_server() -> Generator[int]:
    """The port of a Redis server; the test is skipped where there is no such program."""
    program = os.environ.get("PKV_REDIS_SERVER") or shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server on this machine (Debian: apt-get install redis-server)")
    redis = pytest.importorskip("redis")
    with _folder() as folder:
        port = _free_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
        command += ["--save", "", "--appendonly", "no", "--daemonize", "no"]

        def answers() -> bool:
            try:
                with redis.Redis(host="127.0.0.1", port=port) as client:
                    return bool(client.ping())
            except redis.exceptions.RedisError:
                return False

        with _running(command, answers, folder, signal.SIGTERM):
            yield port


@contextmanager
def postgres_server() -> Generator[PostgresServer]:
    """A PostgreSQL server with a password; the test is skipped where there is no such program."""
    programs = _postgres_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server on this machine (Debian: apt-get install postgresql)")
    psycopg = pytest.importorskip("psycopg")
    with _folder() as folder:
        server, secret = PostgresServer(_free_port()), folder / "password"
        secret.write_text(PASSWORD)
        user = _not_root(folder)
        made = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", USER, "--pwfile", str(secret), "-E", "UTF8"]
        made += ["--auth=password", "--no-sync", "--locale=C"]
        done = subprocess.run(made, cwd=folder, capture_output=True, text=True, check=False, **user)
        assert done.returncode == 0, done.stderr
        command = [str(programs / "postgres"), "-D", str(folder / "data"), "-p", str(server.port), "-F"]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]

        def answers() -> bool:
            try:
                psycopg.connect(server.dsn()).close()
            except psycopg.OperationalError:
                return False
            return True

        # SIGINT ends it without waiting for clients.
        with _running(command, answers, folder, signal.SIGINT, **user):
            yield server


def _postgres_programs() -> Path | None:
    named = os.environ.get("PKV_POSTGRES_BIN")
    found = [Path(named)] if named else sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    on_path = shutil.which("initdb")
    found += [Path(on_path).resolve().parent] if on_path else []
    return next((path for path in found if (path / "initdb").exists() and (path / "postgres").exists()), None)


def _version(path: Path) -> int:
    return int(path.parent.name) if path.parent.name.isdecimal() else 0


def _not_root(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root, so root hands the folder and the process to another user."""
    if os.getuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    for path in (folder, *folder.iterdir()):
        os.chown(path, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@contextmanager
def _folder() -> Generator[Path]:
    """A folder that another user can reach, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="pkv-server-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def _running(
    command: list[str], answers: Callable[[], bool], folder: Path, stop: signal.Signals, **user: Any
) -> Generator[None]:
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, **user)
    try:
        deadline = time.monotonic() + PATIENCE
        while not answers():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")
            time.sleep(0.05)
        yield
    finally:
        process.send_signal(stop)
        try:
            process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

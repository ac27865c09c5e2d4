"""The SQLite store where files, processes and disks misbehave."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from pkv_agents import LedgerError, MemoryStore, SQLiteStore, StoreError
from tests.core.shop import HELLO, make
from tests.guards.repo import ROOT

# A worker of pytest-xdist has threads of its own; the child touches nothing of theirs.
FORKS = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_closing(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "s.db") as store:
        store.save("a", {}, expected_version=0)
    store.close()
    for use in (lambda: store.load("a"), store.keys, lambda: store.delete("a")):
        with pytest.raises(StoreError, match=r"s\.db is closed"):
            use()
    with SQLiteStore(tmp_path / "s.db") as again:
        assert again.keys() == ("a",)


def test_in_memory() -> None:
    with SQLiteStore(":memory:") as one, SQLiteStore(":memory:") as two:
        assert one.save("a", {}, expected_version=0) == 1
        assert two.keys() == ()


@pytest.mark.parametrize(
    ("path", "says"), [("", "path"), ("no/such/folder/s.db", "folder"), (".", "unable to open database file")]
)
def test_places_where_no_file_can_be(tmp_path: Path, path: str, says: str) -> None:
    with pytest.raises(StoreError, match=says):
        SQLiteStore(tmp_path / path if path else path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    broken = tmp_path / "x.db"
    broken.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match=r"x\.db failed: file is not a database") as caught:
        SQLiteStore(broken)
    assert caught.value.__suppress_context__ and isinstance(caught.value.__context__, sqlite3.DatabaseError)
    assert broken.read_bytes() == b"not a database" * 100


def test_a_file_with_damage_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with SQLiteStore(path) as store:
        store.save("a", {"text": "x" * 50_000}, expected_version=0)
    content = bytearray(path.read_bytes())
    for page in range(4096, len(content), 4096):  # all pages but the first, which holds the schema
        content[page : page + 64] = b"\xff" * 64
    path.write_bytes(content)
    with SQLiteStore(path) as store, pytest.raises(StoreError, match=r"x\.db failed: database disk image is malformed"):
        store.load("a")


@pytest.mark.parametrize("text", ["{", "[1]", "\x00", '"text"'])
def test_a_damaged_record(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.db"
    with SQLiteStore(path) as store:
        store.save("a", {}, expected_version=0)
        with sqlite3.connect(path) as raw:
            raw.execute("UPDATE pkv_sessions SET data = ?", (text,))
        raw.close()
        with pytest.raises(LedgerError, match="'a' is damaged"):
            store.load("a")
        assert store.delete("a")


def test_a_read_only_file() -> None:
    """In a process that may not write it: root may write everything, so root becomes somebody else."""
    code = """
import os, sys
from pkv_agents import SQLiteStore, StoreError
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
try:
    SQLiteStore(sys.argv[1]).save("a", {}, expected_version=1)
except StoreError as error:
    print(error)
"""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to others
        path = Path(folder, "s.db")
        with SQLiteStore(path) as store:
            store.save("a", {"n": 1}, expected_version=0)
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        Path(folder).chmod(0o755)
        path.chmod(0o644)
        assert "s.db failed: " in done.stdout and done.stderr == "", done
        with SQLiteStore(path) as store:
            found = store.load("a")
    assert found is not None and (found.data, found.version) == ({"n": 1}, 1)


def test_a_file_that_stays_busy(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with SQLiteStore(path, timeout=0.05) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="database is locked"):
            store.save("a", {}, expected_version=0)
        assert store.load("a") is None  # readers do not wait for a writer
        other.execute("COMMIT")
        other.close()
        assert store.save("a", {}, expected_version=0) == 1


def test_opening_waits_for_a_busy_file(tmp_path: Path) -> None:
    """The switch to a write-ahead log fails at once on a busy file; the store tries again."""
    path = tmp_path / "s.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE other (n)")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="database is locked"):
        SQLiteStore(path, timeout=0.05)
    release = threading.Timer(0.2, lambda: other.execute("COMMIT"))
    release.start()
    with SQLiteStore(path) as store:
        assert store.keys() == ()
    release.join()
    other.close()


@FORKS
def test_a_forked_process_opens_the_file_anew(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "s.db")
    store.save("a", {"by": "parent"}, expected_version=0)
    before = store._db
    with store._lock:  # as if another thread was in the middle of something
        child = os.fork()
        if child == 0:
            try:
                store.save("a", {"by": "child"}, expected_version=1)
                os._exit(0 if store._db is not before else 2)
            finally:
                os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    found = store.load("a")
    assert found is not None and (found.data, found.version) == ({"by": "child"}, 2)
    assert store._db is before
    assert store.save("a", {}, expected_version=2) == 3
    store.close()


@FORKS
def test_a_store_that_is_forked_in_memory() -> None:
    with SQLiteStore(":memory:") as store:
        store.save("a", {"by": "parent"}, expected_version=0)
        child = os.fork()
        if child == 0:
            try:
                found = store.load("a")
                os._exit(0 if found is not None and store.save("a", {}, expected_version=1) == 2 else 2)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        found = store.load("a")
        assert found is not None and found.version == 1  # each process has a memory of its own


def test_a_session_goes_on_without_its_store(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "y.db")
    session = make(store=MemoryStore())
    session._saved.store = store
    store.close()
    turn = session.plan(HELLO)
    with pytest.raises(StoreError):
        session.commit(turn)
    session.commit(turn, on_conflict="report")
    assert session.ledger is not None
    codes = [notice.code for notice in session.report().notices]
    assert codes.count("store_failed") == 2  # before the plan, and at the commit

"""The PostgreSQL store on a real server: its table, rights, settings of a connection, and what a failure says."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any
from uuid import uuid4

import pytest

from pkv_agents import ConflictError, LedgerError, PostgresStore, StoreError, check_store
from tests.stores.backends import pooled
from tests.stores.servers import PASSWORD, USER, PostgresServer

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def table() -> str:
    return f"t{uuid4().hex}"


def connecting(server: PostgresServer, **settings: Any) -> Callable[[], Any]:
    return lambda: psycopg.connect(server.dsn(), **settings)


def run(server: PostgresServer, *statements: str) -> list[Any]:
    """The rows of the last of some statements."""
    rows: list[Any] = []
    with psycopg.connect(server.dsn(), autocommit=True) as db:
        for statement in statements:
            done = db.execute(statement)
            rows = done.fetchall() if done.description is not None else []
    return rows


def test_what_is_kept(postgres: PostgresServer, table: str) -> None:
    store = PostgresStore(connecting(postgres), table)
    store.save("user-42", {"b": "é\x00", "a": 1}, expected_version=0)
    found = run(postgres, f"SELECT key, version, data FROM {table}")
    assert found == [("user-42", 1, '{"b":"\\u00e9\\u0000","a":1}')]


def test_why_it_is_text(postgres: PostgresServer) -> None:
    """The type jsonb reorders names and refuses a character that a value may hold."""
    assert run(postgres, """SELECT '{"bb":1,"a":2}'::jsonb::text""") == [('{"a": 2, "bb": 1}',)]
    with pytest.raises(psycopg.errors.UntranslatableCharacter):
        run(postgres, r"""SELECT '{"a":"\u0000"}'::jsonb""")


def test_many_create_the_table_at_once(postgres: PostgresServer) -> None:
    for _ in range(3):
        table = f"t{uuid4().hex}"
        with ThreadPoolExecutor(16) as pool:
            for made in [pool.submit(PostgresStore, connecting(postgres, autocommit=True), table) for _ in range(16)]:
                made.result()


@pytest.mark.parametrize("table", ["", "a b", 'a"b', "a;b", "a.b.c", "é", "a%s", "a" * 64, "1a", "a.", None])
def test_names_that_are_no_plain_names(table: Any) -> None:
    def never() -> Any:
        raise AssertionError("connected")

    with pytest.raises(StoreError, match="table"):
        PostgresStore(never, table)


def test_a_table_in_a_schema_with_a_reserved_name(postgres: PostgresServer) -> None:
    run(postgres, 'CREATE SCHEMA IF NOT EXISTS "Order"')
    store = PostgresStore(connecting(postgres), "Order.select")
    store.save("a", {}, expected_version=0)
    assert run(postgres, 'SELECT key FROM "Order"."select"') == [("a",)]
    assert PostgresStore(connecting(postgres), "Order.select").keys() == ("a",)


def test_a_user_who_may_not_create_tables(postgres: PostgresServer, table: str) -> None:
    user, statement = f"u{uuid4().hex}", PostgresStore.schema(table)
    run(postgres, f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    dsn = postgres.dsn().replace(USER, user)
    with pytest.raises(StoreError, match=r"InsufficientPrivilege \(SQLSTATE 42501\)"):
        PostgresStore(lambda: psycopg.connect(dsn), table)
    run(postgres, statement, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {user}")
    store = PostgresStore(lambda: psycopg.connect(dsn), table)
    assert store.save("a", {}, expected_version=0) == 1 and store.delete("a")


@pytest.mark.parametrize(
    "setting",
    ["default_transaction_isolation%3Drepeatable%5C%20read", "default_transaction_isolation%3Dserializable"],
)
def test_stricter_isolation(postgres: PostgresServer, setting: str) -> None:
    checks = ["threads_on_one_session", "no_update_is_lost", "a_wrong_version_changes_nothing"]
    with ExitStack() as stack:
        check_store(pooled(stack, postgres.dsn(options=f"&options=-c%20{setting}")), only=checks)


def test_a_connection_for_each_use(postgres: PostgresServer, table: str) -> None:
    checks = ["two_handles_are_one_store", "a_conversation_in_turns", "a_large_record"]
    check_store(lambda: PostgresStore(connecting(postgres), table), only=checks)


def test_a_save_that_waited_for_another_is_a_conflict(postgres: PostgresServer, table: str) -> None:
    """Under REPEATABLE READ the server says it by an error of its own."""
    dsn = postgres.dsn(options="&options=-c%20default_transaction_isolation%3Drepeatable%5C%20read")
    store = PostgresStore(lambda: psycopg.connect(dsn), table)
    store.save("a", {}, expected_version=0)
    with closing(psycopg.connect(dsn)) as other, ThreadPoolExecutor(1) as pool:
        other.execute(f"UPDATE {table} SET version = 2")
        saving = pool.submit(store.save, "a", {"n": 1}, expected_version=1)
        while not run(postgres, "SELECT 1 FROM pg_locks WHERE NOT granted"):
            assert not saving.done()
        other.commit()
        with pytest.raises(ConflictError, match="'a' was saved elsewhere"):
            saving.result()
    found = store.load("a")
    assert found is not None and (found.data, found.version) == ({}, 2)


def test_other_rows_and_encodings(postgres: PostgresServer, table: str) -> None:
    from psycopg.rows import dict_row, namedtuple_row

    settings: list[dict[str, Any]] = [
        {"row_factory": dict_row, "autocommit": True},
        {"row_factory": namedtuple_row, "client_encoding": "latin1"},
        {"client_encoding": "sql_ascii"},
    ]
    for number, setting in enumerate(settings):
        store = PostgresStore(connecting(postgres, **setting), table)
        assert store.save(f"日本 {number}", {"n": "🙂"}, expected_version=0) == 1
        with pytest.raises(ConflictError, match="version 1, expected 7"):
            store.save(f"日本 {number}", {}, expected_version=7)
        found = store.load(f"日本 {number}")
        assert found is not None and found.data == {"n": "🙂"}
        assert len(store.keys()) == number + 1


def test_a_damaged_record(postgres: PostgresServer, table: str) -> None:
    store = PostgresStore(connecting(postgres), table)
    store.save("a", {}, expected_version=0)
    run(postgres, f"UPDATE {table} SET data = '{{'")
    with pytest.raises(LedgerError, match="'a' is damaged"):
        store.load("a")
    assert store.delete("a")


@pytest.mark.parametrize(
    "dsn",
    ["postgresql://ann:s3cret@127.0.0.1:{port}/postgres", "postgresql//ann:s3cret@127.0.0.1/x", "port=s3cret"],
)
def test_failures_show_no_credentials(postgres: PostgresServer, dsn: str) -> None:
    with pytest.raises(StoreError, match=r"the PostgreSQL store failed: psycopg\.\w+( \(SQLSTATE \w+\))?$") as caught:
        PostgresStore(lambda: psycopg.connect(dsn.format(port=postgres.port)))
    assert caught.value.__suppress_context__ and isinstance(caught.value.__context__, psycopg.Error)


def test_a_lost_connection_is_our_error_and_the_next_one_works(postgres: PostgresServer, table: str) -> None:
    store = PostgresStore(connecting(postgres, application_name=table), table)
    with closing(psycopg.connect(postgres.dsn())) as other, ThreadPoolExecutor(1) as pool:
        other.execute(f"LOCK TABLE {table}")
        saving = pool.submit(store.save, "a", {"secret": "s3cret"}, expected_version=0)
        end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
        end += f"application_name = '{table}'"
        while not run(postgres, end):
            assert not saving.done()
        with pytest.raises(StoreError, match=r"the PostgreSQL store failed: psycopg\.[\w.]+( \(SQLSTATE 57P01\))?$"):
            saving.result()
    assert store.load("a") is None
    assert store.save("a", {}, expected_version=0) == 1

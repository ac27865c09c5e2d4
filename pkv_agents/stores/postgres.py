"""A store in PostgreSQL, for several machines."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

from .._stored import StoredSession
from ..errors import StoreError
from ._base import conflict, foreign_errors, key_of, key_text, plain, record_of, record_text, sql_state

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")
_CREATION = 0x706B765F61676E74  # any number, the same for all who may create the table at once
_SERIALISATION_FAILURE = "40001"


class PostgresCursor(Protocol):
    """What `PostgresStore` needs of a cursor of psycopg 3."""

    @property
    def rowcount(self) -> int:
        """How many rows the statement changed."""
        ...

    def fetchone(self) -> Any:
        """The next row, or None."""
        ...

    def fetchall(self) -> Sequence[Any]:
        """All rows."""
        ...


class PostgresConnection(Protocol):
    """What `PostgresStore` needs of a connection of psycopg 3."""

    def execute(self, query: bytes, params: Sequence[object] | None = None, /) -> PostgresCursor:
        """Run one statement."""
        ...

    def transaction(self) -> AbstractContextManager[object]:
        """A transaction, also where the connection commits each statement by itself."""
        ...


class PostgresStore:
    """A store in one PostgreSQL table, safe from several threads, processes and machines.

    Records are kept as text: jsonb would reorder them and refuses some characters. The key is kept beside its SHA-256,
    which is what is indexed, since an index takes no long text. Who may not create tables finds the statement in
    `PostgresStore.schema`.

    Args:
        connect: Gives a connection of psycopg 3 (the extra `postgres` installs it) for one `with` block:
            `pool.connection` of a `psycopg_pool.ConnectionPool`, or `lambda: psycopg.connect(dsn)`, which connects anew
            each time.
        table: The table, perhaps with its schema (`app.pkv_sessions`); it is made when it does not exist.

    Raises:
        StoreError: `connect` is no function, the table's name is no plain name, or the server failed.
    """

    def __init__(
        self, connect: Callable[[], AbstractContextManager[PostgresConnection]], table: str = "pkv_sessions"
    ) -> None:
        if not callable(connect):  # an address, or a connection
            given = type(connect).__name__
            raise StoreError(f"connect: a function, not a {given}; for instance lambda: psycopg.connect(dsn)")
        self._connect = connect
        self._table = _quoted(table)
        name = self._table.decode("ascii")
        with foreign_errors("the PostgreSQL store"), connect() as db:
            if _row(db.execute(b"SELECT to_regclass(%s)::text", [name])) == (None,):
                with db.transaction():
                    # IF NOT EXISTS alone is not safe: of two that create at once, one would fail.
                    db.execute(b"SELECT pg_advisory_xact_lock(%s)", [_CREATION])
                    db.execute(self.schema(table).encode("ascii"))

    @staticmethod
    def schema(table: str = "pkv_sessions") -> str:
        """The statement that makes the table.

        Raises:
            StoreError: The table's name is no plain name.
        """
        return (
            f"CREATE TABLE IF NOT EXISTS {_quoted(table).decode('ascii')} "
            "(id text PRIMARY KEY, key text NOT NULL, version bigint NOT NULL, data text NOT NULL)"
        )

    def load(self, key: str) -> StoredSession | None:
        """The record of a session, or None.

        Raises:
            LedgerError: The record is damaged.
            StoreError: The server failed.
        """
        name = key_text(key)
        with foreign_errors("the PostgreSQL store"), self._connect() as db:
            row = _row(db.execute(b"SELECT data, version FROM %b WHERE id = %%s" % self._table, [_id(name)]))
        return record_of(key, plain(row[0]), row[1]) if row is not None else None

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        """Replace a record; see `SessionStore.save`."""
        name, text = key_text(key), record_text(key, data)
        try:
            with foreign_errors("the PostgreSQL store"), self._connect() as db:
                # One statement decides, so there is no moment at which another one could come between.
                if expected_version == 0:
                    insert = b"INSERT INTO %b VALUES (%%s, %%s, 1, %%s) ON CONFLICT DO NOTHING" % self._table
                    done = db.execute(insert, [_id(name), name, text])
                else:
                    update = b"UPDATE %b SET version = version + 1, data = %%s WHERE id = %%s AND version = %%s"
                    done = db.execute(update % self._table, [text, _id(name), expected_version])
                if done.rowcount == 1:
                    return expected_version + 1
                row = _row(db.execute(b"SELECT version FROM %b WHERE id = %%s" % self._table, [_id(name)]))
        except StoreError as error:
            # Where a connection asks for more than READ COMMITTED, this is how the server says the same.
            if sql_state(error.__context__) == _SERIALISATION_FAILURE:
                raise conflict(key, expected_version, "unknown") from None
            raise
        raise conflict(key, expected_version, row[0] if row is not None else 0)

    def delete(self, key: str) -> bool:
        """Forget a session; whether there was one."""
        name = key_text(key)
        with foreign_errors("the PostgreSQL store"), self._connect() as db:
            return db.execute(b"DELETE FROM %b WHERE id = %%s" % self._table, [_id(name)]).rowcount > 0

    def keys(self) -> tuple[str, ...]:
        """All sessions, sorted."""
        with foreign_errors("the PostgreSQL store"), self._connect() as db:
            rows = db.execute(b"SELECT key FROM %b" % self._table).fetchall()
        return tuple(sorted(key_of(plain(_values(row)[0])) for row in rows))


def _id(name: str) -> str:
    return hashlib.sha256(name.encode("ascii")).hexdigest()


def _quoted(table: str) -> bytes:
    if not isinstance(table, str) or not _NAME.fullmatch(table):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise StoreError("table: a name of ASCII letters, digits and _, perhaps with its schema ('app.pkv_sessions')")
    return ".".join(f'"{part}"' for part in table.split(".")).encode("ascii")


def _row(cursor: PostgresCursor) -> tuple[object, ...] | None:
    row = cursor.fetchone()
    return _values(row) if row is not None else None


def _values(row: Any) -> tuple[object, ...]:
    """A row's values, in order, also where the connection makes dicts of its rows."""
    return tuple(cast("Mapping[str, object]", row).values()) if isinstance(row, Mapping) else tuple(row)

"""A store in Redis, for several machines."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, cast

from .._stored import StoredSession, shown
from ..errors import LedgerError, StoreError
from ._base import conflict, foreign_errors, key_of, key_text, plain, record_of, record_text

# A script runs alone on the server, so comparing and setting are one step. Its answer: how it went (1 saved,
# 0 another version, -1 something else is kept there), and the version that the record has now.
_SAVE = """
local found = redis.call('HGET', KEYS[1], 'version')
if found then found = tonumber(found)
elseif redis.call('EXISTS', KEYS[1]) == 0 then found = 0 end
if not found then return {-1, 0} end
if found ~= tonumber(ARGV[1]) then return {0, found} end
redis.call('HSET', KEYS[1], 'version', found + 1, 'data', ARGV[2])
if ARGV[3] == '' then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return {1, found + 1}
"""
_SCAN_COUNT = 1000  # keys that the server looks at in one step of a listing


class RedisClient(Protocol):
    """What `RedisStore` needs of a `redis.Redis` or `redis.RedisCluster`."""

    def eval(self, script: str, numkeys: int, /, *keys_and_args: str) -> Any:
        """Run a Lua script."""
        ...

    def hmget(self, name: str, keys: list[str], /) -> Any:
        """Read fields of a hash."""
        ...

    def delete(self, name: str, /) -> Any:
        """Remove a key; how many there were."""
        ...

    def scan_iter(self, match: str | None = None, count: int | None = None) -> Iterable[Any]:
        """Walk over keys."""
        ...


class RedisStore:
    """A store in Redis, safe from several threads, processes and machines. Each session is one hash.

    A save is one Lua script (`EVAL`), so the user of the connection must be allowed to run scripts. What a failover or
    an eviction of the server loses is lost here, too: a session of which nothing is left is told everything again.

    Args:
        client: A `redis.Redis` of your own (the extra `redis` installs it). It stays yours to close.
        prefix: What the names of the sessions' keys begin with. Nothing else may be kept under it.
        ttl: How long a session is kept after its last save; None keeps it.

    Raises:
        StoreError: The client is none, or the ttl is not positive. (The server is first asked when a session is.)
    """

    def __init__(self, client: RedisClient, prefix: str = "pkv:", *, ttl: timedelta | None = None) -> None:
        if not hasattr(client, "eval"):  # an address, which other clients take
            raise StoreError(
                f"client: a redis.Redis, not a {type(client).__name__}; for instance redis.Redis.from_url(url)"
            )
        if ttl is not None and ttl < timedelta(milliseconds=1):
            raise StoreError("ttl: a positive timedelta, or None to keep sessions")
        self._client = client
        self._prefix = prefix
        self._milliseconds = "" if ttl is None else str(ttl // timedelta(milliseconds=1))

    def load(self, key: str) -> StoredSession | None:
        """The record of a session, or None.

        Raises:
            LedgerError: The record is damaged.
            StoreError: The server failed.
        """
        name = self._prefix + key_text(key)
        with foreign_errors("the Redis store"):
            version, text = _items(self._client.hmget(name, ["version", "data"]))
        if version is None and text is None:
            return None
        number = plain(version)
        return record_of(key, plain(text), int(number) if number.isdecimal() else None)

    def save(self, key: str, data: Mapping[str, object], *, expected_version: int) -> int:
        """Replace a record; see `SessionStore.save`."""
        name, text = self._prefix + key_text(key), record_text(key, data)
        with foreign_errors("the Redis store"):
            reply = self._client.eval(_SAVE, 1, name, str(expected_version), text, self._milliseconds)
            went, found = _items(reply)
        if went == -1:
            raise LedgerError(
                f"the record of session {shown(key)} is damaged, or not ours; nothing was changed; "
                "delete_session forgets it"
            )
        if went != 1:
            raise conflict(key, expected_version, found)
        return int(cast(int, found))

    def delete(self, key: str) -> bool:
        """Forget a session; whether there was one."""
        with foreign_errors("the Redis store"):
            return int(_answer(self._client.delete(self._prefix + key_text(key)))) > 0

    def keys(self) -> tuple[str, ...]:
        """All sessions, sorted; those saved or deleted during the walk may be missing or listed."""
        pattern = re.sub(r"([\\*?\[\]])", r"\\\1", self._prefix) + "*"
        with foreign_errors("the Redis store"):
            names = {plain(name) for name in self._client.scan_iter(match=pattern, count=_SCAN_COUNT)}
        return tuple(sorted(key_of(name.removeprefix(self._prefix)) for name in names))


def _answer(reply: Any) -> Any:
    if inspect.isawaitable(reply):
        if inspect.iscoroutine(reply):
            reply.close()  # or Python would warn that nobody awaited it
        raise StoreError("client: a redis.Redis, not one of redis.asyncio; sessions are saved synchronously")
    return reply


def _items(reply: Any) -> Sequence[object]:
    """The two items of a reply."""
    items: Sequence[object] = _answer(reply)
    if len(items) != 2:
        raise TypeError
    return items

"""The Redis store on a real server: what is kept there, for how long, and what a failure says."""

from __future__ import annotations

import socket
from collections.abc import Generator
from datetime import timedelta
from typing import Any

import pytest

from pkv_agents import ConflictError, LedgerError, RedisStore, StoreError

redis = pytest.importorskip("redis")


@pytest.fixture
def client(redis_port: int) -> Generator[Any]:
    with redis.Redis(host="127.0.0.1", port=redis_port) as client:
        client.flushall()
        yield client


def test_what_is_kept(client: Any) -> None:
    store = RedisStore(client)
    store.save("user-42", {"a": "é\x00"}, expected_version=0)
    assert client.keys() == [b"pkv:user-42"]
    assert client.hgetall("pkv:user-42") == {b"version": b"1", b"data": b'{"a":"\\u00e9\\u0000"}'}


def test_sessions_outlive_their_last_save_by_the_ttl(client: Any) -> None:
    passing, lasting = RedisStore(client, ttl=timedelta(minutes=5)), RedisStore(client)
    passing.save("a", {}, expected_version=0)
    assert 299_000 < client.pttl("pkv:a") <= 300_000
    client.pexpire("pkv:a", 1000)
    with pytest.raises(ConflictError):
        passing.save("a", {}, expected_version=5)
    assert client.pttl("pkv:a") <= 1000  # a refused save changes nothing
    passing.save("a", {}, expected_version=1)
    assert client.pttl("pkv:a") > 1000
    lasting.save("a", {}, expected_version=2)
    assert client.pttl("pkv:a") == -1  # kept
    passing.save("a", {}, expected_version=3)
    client.pexpire("pkv:a", 0)
    assert passing.load("a") is None and passing.keys() == ()


@pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1), timedelta(microseconds=1)])
def test_a_ttl_that_is_none(client: Any, ttl: timedelta) -> None:
    with pytest.raises(StoreError, match="ttl"):
        RedisStore(client, ttl=ttl)


def test_prefixes_are_apart(client: Any) -> None:
    stores = [RedisStore(client, prefix) for prefix in ("a*", "ab", "größe:", "[a-z]", "\\")]
    for number, store in enumerate(stores):
        store.save(f"é{number}", {}, expected_version=0)
    assert [store.keys() for store in stores] == [(f"é{number}",) for number in range(len(stores))]


def test_what_is_not_ours_is_kept(client: Any) -> None:
    store = RedisStore(client)
    client.hset("pkv:a", mapping={"theirs": "1"})
    client.set("pkv:b", "theirs")
    client.hset("pkv:c", mapping={"version": "one", "data": "{}"})
    client.hset("pkv:d", mapping={"version": "1", "data": "[]"})
    client.set('pkv:"', "theirs")
    for key, error in (("a", LedgerError), ("b", StoreError), ("c", LedgerError)):
        with pytest.raises(error):
            store.save(key, {}, expected_version=0)
    for key, error in (("b", StoreError), ("c", LedgerError), ("d", LedgerError)):
        with pytest.raises(error):
            store.load(key)
    with pytest.raises(LedgerError, match="not written by pkv-agents"):
        store.keys()
    assert client.get("pkv:b") == b"theirs" and client.hgetall("pkv:a") == {b"theirs": b"1"}
    assert store.delete("c")


def test_failures_show_no_credentials(redis_port: int) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: a connection is refused
        url = f"redis://ann:s3cret@127.0.0.1:{nobody.getsockname()[1]}/0"
        client = redis.Redis.from_url(url, retry=None)
        store = RedisStore(client)
        for use in (lambda: store.load("a"), lambda: store.save("a", {}, expected_version=0), store.keys):
            with pytest.raises(StoreError, match=r"the Redis store failed: redis\.exceptions\.\w+$") as caught:
                use()
            assert caught.value.__suppress_context__ and isinstance(
                caught.value.__context__, redis.exceptions.RedisError
            )
    with redis.Redis.from_url(f"redis://ann:s3cret@127.0.0.1:{redis_port}/0") as client:
        with pytest.raises(StoreError) as caught:
            RedisStore(client).load("a")
        assert "s3cret" not in str(caught.value)


def test_a_user_who_may_run_no_scripts(client: Any, redis_port: int) -> None:
    client.acl_setuser("reader", enabled=True, nopass=True, categories=["+@all", "-@scripting"], keys=["*"])
    with redis.Redis(host="127.0.0.1", port=redis_port, username="reader", password="x") as limited:
        store = RedisStore(limited)
        assert store.load("a") is None
        with pytest.raises(StoreError, match="NoPermissionError"):
            store.save("a", {}, expected_version=0)
    client.acl_deluser("reader")


async def test_an_asynchronous_client_is_refused(redis_port: int) -> None:
    import redis.asyncio

    async with redis.asyncio.Redis(host="127.0.0.1", port=redis_port) as client:
        store: Any = RedisStore(client)  # pyright: ignore[reportArgumentType] (the mistake under test)
        for use in (lambda: store.load("a"), lambda: store.save("a", {}, expected_version=0), lambda: store.delete("")):
            with pytest.raises(StoreError, match=r"redis\.asyncio"):
                use()

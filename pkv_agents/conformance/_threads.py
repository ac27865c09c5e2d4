"""Checks with several threads at once, each with a handle of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from .._stored import SessionStore
from ..errors import ConflictError, ConformanceError
from ._expect import expect, must_load

MakeStore = Callable[[], SessionStore]
T = TypeVar("T")

THREADS = 32
ROUNDS = 4
TRIES = 100 * THREADS
"""A thread that loses this often in a row is not just unlucky."""


def threads_on_their_own_sessions(make_store: MakeStore, prefix: str) -> None:
    """Threads that share no session do not disturb one another."""

    def work(store: SessionStore, number: int) -> None:
        key = f"{prefix}{number}"
        for version in range(ROUNDS):
            store.save(key, {"thread": number, "n": version + 1}, expected_version=version)
            found = must_load(store, key)
            expect(
                (found.version, found.data) == (version + 1, {"thread": number, "n": version + 1}),
                "a thread on a session of its own loaded something else than it had saved",
            )

    _together(make_store, work)


def threads_on_one_session(make_store: MakeStore, prefix: str) -> None:
    """Of all who save over one version at the same moment, exactly one wins, and its data is what is kept."""
    key, start = f"{prefix}key", threading.Barrier(THREADS)

    def work(store: SessionStore, number: int) -> list[bool]:
        won: list[bool] = []
        for version in range(ROUNDS):
            start.wait(timeout=60)
            try:
                got = store.save(key, {"winner": number}, expected_version=version)
            except ConflictError:
                won.append(False)
            else:
                expect(got == version + 1, f"a save over version {version} gave {got}")
                won.append(True)
        return won

    results = _together(make_store, work, abort=start.abort)
    for version, won in enumerate(zip(*results, strict=True)):
        expect(sum(won) == 1, f"{sum(won)} of {THREADS} saves over version {version} succeeded, instead of one")
    found = must_load(make_store(), key)
    (last,) = (number for number, won in enumerate(results) if won[-1])
    expect((found.version, found.data) == (ROUNDS, {"winner": last}), "the winner's data is not what was kept")


def no_update_is_lost(make_store: MakeStore, prefix: str) -> None:
    """Threads that load, add one and save, and try again when told of a conflict, add up."""
    key = f"{prefix}key"

    def work(store: SessionStore, number: int) -> None:
        for _ in range(TRIES):
            found = store.load(key)
            count, version = (found.data.get("n"), found.version) if found is not None else (0, 0)
            if not isinstance(count, int):
                raise ConformanceError("the count is no number any more")
            with suppress(ConflictError):
                store.save(key, {"n": count + 1, "thread": number}, expected_version=version)
                return
        raise ConformanceError(f"a thread lost {TRIES} times in a row")

    _together(make_store, work)
    found = must_load(make_store(), key)
    expect(
        (found.data["n"], found.version) == (THREADS, THREADS),
        f"{THREADS} threads added one each, and the sum is {found.data['n']} at version {found.version}",
    )


def _together(
    make_store: MakeStore, work: Callable[[SessionStore, int], T], *, abort: Callable[[], None] | None = None
) -> list[T]:
    """Run work in all threads at once; the first error is raised."""
    handles = [make_store() for _ in range(THREADS)]

    def run(number: int) -> T:
        try:
            return work(handles[number], number)
        except BaseException:
            if abort is not None:
                abort()  # or the others would wait for this one
            raise

    with ThreadPoolExecutor(THREADS) as pool:
        running = [pool.submit(run, number) for number in range(THREADS)]
    errors = [error for future in running if (error := future.exception()) is not None]
    # A broken barrier only says that another thread has failed.
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return [future.result() for future in running]

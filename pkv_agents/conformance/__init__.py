"""What sessions rely on in a store, as checks that any store can be held to.

    def test_my_store() -> None:
        check_store(lambda: MyStore(url))

or, with one test for each check:

    @pytest.mark.parametrize("name", STORE_CHECKS)
    def test_my_store(name: str) -> None:
        check_store(lambda: MyStore(url), only=[name])
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType

from .._stored import SessionStore
from ..errors import ConformanceError
from . import _records, _sessions, _threads

STORE_CHECKS: Mapping[str, Callable[[Callable[[], SessionStore], str], None]] = MappingProxyType(
    {
        check.__name__: check
        for check in (
            _records.nothing_is_none,
            _records.data_comes_back_byte_for_byte,
            _records.what_is_loaded_is_a_copy,
            _records.versions_count,
            _records.a_wrong_version_changes_nothing,
            _records.two_handles_are_one_store,
            _records.delete_then_save,
            _records.keys_are_sorted,
            _records.odd_keys,
            _records.a_large_record,
            _threads.threads_on_their_own_sessions,
            _threads.threads_on_one_session,
            _threads.no_update_is_lost,
            _sessions.a_crash_between_plan_and_commit,
            _sessions.a_conversation_in_turns,
            _sessions.two_live_sessions,
            _sessions.an_unknown_future_format,
        )
    }
)
"""Each check by its name. A check takes a function that makes handles, and the prefix of the keys that it may use."""


def check_store(make_store: Callable[[], SessionStore], *, only: Iterable[str] | None = None) -> None:
    """Hold a store to what sessions rely on.

    It uses keys of its own (and the empty one where that is free) and deletes them afterwards, so the backend may hold
    other sessions; still, use one for tests.

    Args:
        make_store: Gives a handle on one and the same backend each time it is called: two processes, as it were. The
            same handle each time is fine for a store that lives in one process. Handles are not closed.
        only: Names out of `STORE_CHECKS`; all of them when left out.

    Raises:
        ConformanceError: The store does not hold to it; the message names the check and what was seen.
        StoreError: The store failed.
        KeyError: There is no check of such a name.
    """
    prefix = f"conformance-{uuid.uuid4().hex}-"
    try:
        for name in STORE_CHECKS if only is None else only:
            try:
                STORE_CHECKS[name](make_store, f"{prefix}{name}-")
            except ConformanceError as error:
                raise ConformanceError(f"{name}: {error}") from error.__cause__
    except BaseException:
        with suppress(Exception):  # what is reported is the first thing that went wrong
            _clean(make_store(), prefix)
        raise
    _clean(make_store(), prefix)


def _clean(store: SessionStore, prefix: str) -> None:
    for key in store.keys():  # noqa: SIM118 (a store is no mapping)
        if key.startswith(prefix):
            store.delete(key)

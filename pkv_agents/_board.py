"""The notices of a session: each cause is reported once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ._stored import shown
from .callbacks import call_back
from .errors import StrictNoticeError
from .notices import Notice

logger = logging.getLogger("pkv_agents")
logger.addHandler(logging.NullHandler())

MAX_KEPT = 1000
"""How many notices are remembered."""


class NoticeBoard:
    """Reports notices to the log and to the user's callback, and remembers them.

    Args:
        key: The session, for the log.
        on_notice: Called with each notice, once for each cause.
        strict: Raise notices instead, but for advice (`Notice.is_advice`).
    """

    def __init__(self, key: str, on_notice: Callable[[Notice], None] | None, strict: bool) -> None:
        self._key = shown(key)
        self._on_notice = on_notice
        self._strict = strict
        self._lock = threading.Lock()
        self._told: dict[tuple[str, str, object], Notice] = {}

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Each notice once, oldest first."""
        with self._lock:
            return tuple(self._told.values())

    def tell(self, notice: Notice, occasion: object) -> None:
        """Report a cause once: the same code about the same path on the same occasion (an epoch, a turn).

        Raises:
            StrictNoticeError: The board is strict.
        """
        if self._strict and not notice.is_advice:
            raise StrictNoticeError(notice)
        cause = (notice.code, notice.path, occasion)
        with self._lock:
            if cause in self._told:
                return
            self._told[cause] = notice
            if len(self._told) > MAX_KEPT:
                del self._told[next(iter(self._told))]
        logger.log(logging.INFO if notice.is_advice else logging.WARNING, "%s: %s", self._key, notice)
        call_back(self._on_notice, notice, "on_notice")

    def begin_anew(self) -> None:
        """Report causes again that were reported already: the conversation begins anew."""
        with self._lock:
            self._told = {(code, path, ("before", at)): known for (code, path, at), known in self._told.items()}

"""The notices of a session: each cause is reported once."""

from __future__ import annotations

import logging
from collections.abc import Callable

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
        self._key = key
        self._on_notice = on_notice
        self._strict = strict
        self._known: dict[tuple[str, str, int], Notice] = {}

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Each notice once, oldest first."""
        return tuple(self._known.values())

    def tell(self, notice: Notice, occasion: int) -> None:
        """Report a cause once: the same code about the same path on the same occasion (an epoch, a turn).

        Raises:
            StrictNoticeError: The board is strict.
        """
        if self._strict and not notice.is_advice:
            raise StrictNoticeError(notice)
        cause = (notice.code, notice.path, occasion)
        if cause in self._known:
            return
        self._known[cause] = notice
        if len(self._known) > MAX_KEPT:
            del self._known[next(iter(self._known))]
        logger.log(logging.INFO if notice.is_advice else logging.WARNING, "%s: %s", self._key, notice)
        if self._on_notice is not None:
            self._on_notice(notice)

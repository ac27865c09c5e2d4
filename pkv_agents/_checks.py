"""What a session is given, checked where it is made."""

from __future__ import annotations

from datetime import datetime

from .errors import MissingSessionKeyError, ProfileError, SessionError
from .prices import PriceTable
from .profiles import Profile
from .styles import ErrataStyle


def check_session(*, key: object, profile: object, style: object, prices: object, store: object, clock: object) -> None:
    """Refuse what would only fail in the middle of a turn.

    Raises:
        MissingSessionKeyError: The key is empty, or no text.
        ProfileError: The profile is none.
        SessionError: Another argument is not what it should be.
    """
    if not isinstance(key, str) or not key:
        raise MissingSessionKeyError("a session needs a key of its own, for instance key='user-42'")
    if profile is not None and not isinstance(profile, Profile):
        raise ProfileError(f"profile: a Profile, for instance profile_for('openai', 'gpt-5')[0], not {_kind(profile)}")
    if not isinstance(style, ErrataStyle):
        raise SessionError(f"style: an ErrataStyle, for instance CALM_STYLE, not {_kind(style)}")
    if not isinstance(prices, PriceTable):
        raise SessionError(f"prices: a PriceTable, for instance DEFAULT_PRICES, not {_kind(prices)}")
    if store is not None and not callable(getattr(store, "load", None)):
        raise SessionError(f"store: a store, for instance SQLiteStore('sessions.db'), not {_kind(store)}")
    now = clock() if callable(clock) else None
    if not isinstance(now, datetime) or now.utcoffset() is None:
        raise SessionError("clock: a function that returns a time with a zone, as lambda: datetime.now(UTC)")


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"

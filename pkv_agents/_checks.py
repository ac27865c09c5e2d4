"""What a session is given, checked where it is made."""

from __future__ import annotations

from datetime import datetime

from ._rebase import RebasePolicy
from ._stored import shown
from .errors import MissingSessionKeyError, ProfileError, SessionError
from .prices import PriceTable
from .profiles import Profile
from .styles import ErrataStyle
from .turnplan import TurnPlan


def check_session(
    key: object,
    instructions: object,
    profile: object,
    policy: object,
    style: object,
    prices: object,
    store: object,
    on_notice: object,
    clock: object,
) -> None:
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
    if not isinstance(policy, RebasePolicy):
        raise SessionError(f"rebase_policy: a RebasePolicy, not {_kind(policy)}")
    if on_notice is not None and not callable(on_notice):
        raise SessionError(f"on_notice: a function that takes a Notice, not {_kind(on_notice)}")
    if not isinstance(instructions, str):
        raise SessionError(f"instructions: text, not {_kind(instructions)}")
    now = clock() if callable(clock) else None
    if not isinstance(now, datetime) or now.utcoffset() is None:
        raise SessionError("clock: a function that returns a time with a zone, as lambda: datetime.now(UTC)")


def check_commit(plan: object, key: str, on_conflict: object) -> None:
    """Refuse what is no plan of this session: another's would put one conversation's state into another's prompt.

    Raises:
        SessionError: With the mend.
    """
    if not isinstance(plan, TurnPlan):
        raise SessionError(f"commit takes the plan that session.plan made, not {_kind(plan)}")
    if plan.key != key:
        made = f"session {shown(plan.key)}" if plan.key else "pkv_agents.plan, without a session"
        raise SessionError(f"commit in session {shown(key)} got a plan of {made}; plan and commit in one session")
    if on_conflict not in ("raise", "report"):
        raise SessionError(f"on_conflict is 'raise' or 'report', not {on_conflict!r}")


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"

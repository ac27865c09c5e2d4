"""Providers that refuse a system turn in the middle of a conversation: seen once, remembered, gone round.

An endpoint that calls itself compatible with OpenAI or Anthropic may answer 400 to a role that the original accepts.
That cannot be known beforehand. The adapter that catches the error plans once more without that carrier.
"""

from __future__ import annotations

import re
from dataclasses import replace

from .ledger import Ledger
from .notices import Notice
from .turnplan import TurnPlan

_STATUSES = frozenset({400, 422})
_WORDS = re.compile(r"\bsystem\b", re.IGNORECASE)
_PLACES = re.compile(r"\brole|\bmessages?\b|\bturn|\btemplate|\balternat", re.IGNORECASE)


def refuses_system(error: BaseException, plan: TurnPlan) -> bool:
    """Whether a provider's error says that it takes no system turn where the plan put one.

    Args:
        error: What the client library raised.
        plan: The plan of the request.

    Returns:
        True for a 400 or 422 about a system role, on a request that has an erratum in that form.
    """
    if not any(insertion.carrier == "system" for insertion in plan.insertions):
        return False
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    text = str(error)
    return status in _STATUSES and _WORDS.search(text) is not None and _PLACES.search(text) is not None


def system_refused(model: str) -> Notice:
    """What there is to say about it."""
    return Notice(
        "system_refused",
        path=model,
        cost="one refused call; errata ride on user and tool messages from here on",
        mend="pass profile=dataclasses.replace(..., carrier='user_suffix') for this endpoint",
        message="the endpoint refused a system message behind the head",
    )


def without_system(ledger: Ledger | None, model: str) -> Ledger:
    """Remember that a model takes no system turns behind its head.

    Args:
        ledger: What was sent so far.
        model: The model, as `plan` was told.

    Returns:
        A new ledger. Plans for this model use the other carrier from here on; what other models were sent stays.
    """
    current = ledger if ledger is not None else Ledger()
    return current if model in current.refused else replace(current, refused=(*current.refused, model))

"""A session's report: what changed, what was appended, what the cache served, what it cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import Decimal
from textwrap import wrap

from ._usage_record import add_counts
from .cost import Cost
from .notices import Notice
from .usage import Usage

MAX_TURNS_SHOWN = 12
WIDTH = 100
"""Columns of the printed report; only names longer than that go beyond."""


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One recorded turn.

    Attributes:
        number: Counts from 1.
        changed: The paths that were told.
        appended_tokens: An estimate of the erratum's length.
        rebased: Why a new epoch began, or None.
        usage: What the provider reported; its fields are None where it did not.
        cost: What it cost; None where nobody asked.
        model: The model that answered, where it is known.
    """

    number: int
    changed: tuple[str, ...]
    appended_tokens: int
    rebased: str | None
    usage: Usage
    cost: Cost | None = None
    model: str = ""

    def to_dict(self) -> dict[str, object]:
        """Plain JSON data; amounts as text, what is not known as None."""
        return {
            "number": self.number,
            "model": self.model,
            "changed": list(self.changed),
            "appended_tokens": self.appended_tokens,
            "rebased": self.rebased,
            **_accounts(self.usage, self.cost),
        }


@dataclass(frozen=True, slots=True)
class SessionReport:
    """What happened in a session; `print` it, or hand it to rich.

    Attributes:
        key: The session.
        turns: The latest recorded turns of this process.
        total_turns: How many there were.
        usage: The sum over all of them.
        notices: Each notice once.
        cost: The sum over all of them (without a total where they were paid in several currencies); None where nobody
            asked.
    """

    key: str
    turns: tuple[TurnRecord, ...]
    total_turns: int
    usage: Usage
    notices: tuple[Notice, ...]
    cost: Cost | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain JSON data, for tests and dashboards; amounts as text, what is not known as None."""
        return {
            "key": self.key,
            "total_turns": self.total_turns,
            "appended_tokens": sum(turn.appended_tokens for turn in self.turns),
            **_accounts(self.usage, self.cost),
            "turns": [turn.to_dict() for turn in self.turns],
            "notices": [asdict(notice) for notice in self.notices],
        }

    def __str__(self) -> str:
        """The totals, a table with a row a turn, the notices."""
        appended = sum(turn.appended_tokens for turn in self.turns)
        turns = "1 turn" if self.total_turns == 1 else f"{self.total_turns:,} turns"
        latest = f" in the latest {len(self.turns)}" if len(self.turns) < self.total_turns else ""
        lines = wrap(f"Session {self.key}: {turns}, about {appended:,} tokens of errata{latest}.", WIDTH)
        lines.append(_share_line(self.usage))
        if self.cost is not None:
            lines += _cost_lines(self.cost)
        shown = self.turns[-MAX_TURNS_SHOWN:]
        priced = any(turn.cost is not None and turn.cost.total is not None for turn in shown)
        money = f"{'cost':>10}  " if priced else ""
        lines.append(f"{'turn':>4}  {'appended':>8}  {'cached':>9}  {'new':>9}  {'share':>6}  {money}changed")
        lines += [_row(turn, priced) for turn in shown]
        for notice in self.notices:
            lines += wrap(f"notice {notice}", WIDTH, subsequent_indent="  ", break_long_words=False)
        return "\n".join(lines)

    def __rich__(self) -> str:
        """The same text, with rich's markup characters escaped."""
        return str(self).replace("[", r"\[")


def _accounts(usage: Usage, cost: Cost | None) -> dict[str, object]:
    """The usage and cost of a turn or a session as data."""
    told = asdict(usage) | {"input": usage.input, "status": usage.status}
    return {"usage": told, "cached_share": usage.cached_share, "cost": None if cost is None else cost.to_dict()}


def _share_line(usage: Usage) -> str:
    share = usage.cached_share
    known = usage.cache_known_input
    if share is None or known is None or usage.input is None:
        return "Cached share: not reported."
    counted = f", counted by {usage.estimated_by}" if usage.estimated_by else ""
    rest = f"; not reported of {usage.input - known:,} more" if known < usage.input else ""
    return f"Cached share: {share:.1%} of {known:,} input tokens{counted}{rest}."


def _cost_lines(cost: Cost) -> list[str]:
    """The cost in words: where it comes from, whether something is missing, and what the cache saved."""
    if cost.total is None:
        return [f"Cost: {cost.status}."]
    dated = f" of {cost.as_of}" if cost.as_of else ""
    source = "as the provider reported it" if cost.status == "reported" else f"estimated from prices{dated}"
    gap = "" if cost.complete else "; a part of it was not reported or has no known price"
    lines = [f"Cost: {_money(cost.total, cost.currency)}, {source}{gap}."]
    without = cost.without_cache
    if cost.saving is None or not without:
        return [*lines, "Saving: not known."]
    share = f"{cost.saving / without:.1%} of {_money(without, cost.currency)} without a cache, by the prices"
    return [*lines, f"Saving: {_money(cost.saving, cost.currency)}, {share}."]


def _row(turn: TurnRecord, priced: bool) -> str:
    what = ", ".join(turn.changed[:4]) + (f" and {len(turn.changed) - 4} more" if len(turn.changed) > 4 else "")
    what += f" [new epoch: {turn.rebased}]" if turn.rebased else ""
    usage = turn.usage
    share = "-" if usage.cached_share is None else f"{usage.cached_share:.1%}"
    new = add_counts(usage.fresh, usage.cache_write_5m, usage.cache_write_1h)
    row = f"{turn.number:>4}  {turn.appended_tokens:>8}  {_shown(usage.cache_read):>9}  {_shown(new):>9}  "
    row += f"{share:>6}  "
    if priced:
        total = None if turn.cost is None else turn.cost.total
        row += f"{'-' if turn.cost is None or total is None else _money(total, turn.cost.currency):>10}  "
    row += what or "-"
    return row if len(row) <= WIDTH else row[: WIDTH - 3] + "..."


def _shown(tokens: int | None) -> str:
    return "-" if tokens is None else f"{tokens:,}"


def _money(amount: Decimal, currency: str) -> str:
    """An amount for people: cents where it is large, more digits where it is small."""
    digits = 2 if abs(amount) >= 100 else 4 if abs(amount) >= 1 else 6
    sign, text = "-" if amount < 0 else "", f"{abs(amount):,.{digits}f}"
    return f"{sign}${text}" if currency == "USD" else f"{sign}{text} {currency}"

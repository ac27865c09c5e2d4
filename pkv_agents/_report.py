"""A session's report: what changed, what was appended, what the cache served."""

from __future__ import annotations

from dataclasses import dataclass

from .notices import Notice
from .usage import Usage

MAX_TURNS_SHOWN = 12


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One recorded turn.

    Attributes:
        number: Counts from 1.
        changed: The paths that were told.
        appended_tokens: An estimate of the erratum's length.
        rebased: Why a new epoch began, or None.
        usage: What the provider reported; its fields are None where it did not.
    """

    number: int
    changed: tuple[str, ...]
    appended_tokens: int
    rebased: str | None
    usage: Usage


@dataclass(frozen=True, slots=True)
class SessionReport:
    """What happened in a session; `print` it, or hand it to rich.

    Attributes:
        key: The session.
        turns: The latest recorded turns of this process.
        total_turns: How many there were.
        usage: The sum over all of them.
        notices: Each notice once.
    """

    key: str
    turns: tuple[TurnRecord, ...]
    total_turns: int
    usage: Usage
    notices: tuple[Notice, ...]

    def __str__(self) -> str:
        """A table a turn, the totals, the notices."""
        share = self.usage.cached_share
        cached = "not reported" if share is None else f"{share:.1%}"
        lines = [
            f"Session {self.key}: {self.total_turns} turns, "
            f"about {sum(turn.appended_tokens for turn in self.turns):,} tokens of errata, cached share {cached}.",
            f"{'turn':>4}  {'appended':>8}  {'cached':>8}  {'new':>8}  changed",
        ]
        for turn in self.turns[-MAX_TURNS_SHOWN:]:
            what = ", ".join(turn.changed[:4]) + (f" and {len(turn.changed) - 4} more" if len(turn.changed) > 4 else "")
            what += f" [new epoch: {turn.rebased}]" if turn.rebased else ""
            read, fresh = _shown(turn.usage.cache_read), _shown(turn.usage.fresh)
            lines.append(f"{turn.number:>4}  {turn.appended_tokens:>8}  {read:>8}  {fresh:>8}  {what or '-'}")
        lines += [f"notice {notice}" for notice in self.notices]
        return "\n".join(lines)

    def __rich__(self) -> str:
        """The same text, with rich's markup characters escaped."""
        return str(self).replace("[", r"\[")


def _shown(tokens: int | None) -> str:
    return "-" if tokens is None else f"{tokens:,}"

"""A plan explained, as data and in words; and its exact wire form, for reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ._rebase import RebaseQuote
from ._ttl import is_stale
from .diff import Change
from .ledger import Carrier
from .messages import Message
from .notices import Notice
from .predict import Prediction, predict
from .tokens import estimate_tokens
from .turnplan import TurnPlan
from .wire import marked_wire

MAX_LINES = 8


@dataclass(frozen=True, slots=True)
class ToldChange:
    """One line of what a request tells.

    Attributes:
        path: What it is about.
        text: The text that is shown; empty for what is gone.
        why: `changed`, `removed`, `new`, `stale` (its ttl passed) or `restated` (critical, said again).
    """

    path: str
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan, explained; token counts are estimates. `str()` of it is the plan in words.

    Attributes:
        head_tokens: The whole system text.
        baseline_fields: How many fields the baseline states.
        epoch: The epoch's number.
        began: Why the epoch began.
        rebased: Why it begins with this request, or None.
        replayed: The errata that are sent again: after how many messages, and how long each is.
        new_after: After how many messages the new erratum stands; None when there is none.
        new_carrier: Its form.
        new_tokens: Its length.
        told: What it says; what would be said, when it waits.
        kept: The prefix of the branch's last request is kept; None when there was none.
        notices: What broke the prefix, and what else a user should know.
        quote: What a rebase was considered at.
        prediction: What the cache will serve, where the messages were given.
    """

    head_tokens: int
    baseline_fields: int
    epoch: int
    began: str
    rebased: str | None
    replayed: tuple[tuple[int, int], ...]
    new_after: int | None
    new_carrier: Carrier | None
    new_tokens: int
    told: tuple[ToldChange, ...]
    kept: bool | None
    notices: tuple[Notice, ...]
    quote: RebaseQuote | None
    prediction: Prediction | None

    def to_dict(self) -> dict[str, object]:
        """The same as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        """A few lines of text. Values that a model may see may appear; Hidden ones are not in a plan."""
        head = (
            f"Head: about {self.head_tokens:,} tokens; "
            f"baseline of {self.baseline_fields} fields, epoch {self.epoch} (began: {self.began})."
        )
        lines = [head, *self._rebase_lines(), *self._errata_lines()]
        lines += [] if self.kept is None else [_KEPT if self.kept else _NOT_KEPT]
        lines += ["What else there is to know, or what broke it:"] if self.notices else []
        lines += [f"  {notice}" for notice in self.notices]
        if self.prediction is not None:
            lines.append(_prediction_line(self.prediction))
        return "\n".join(lines)

    def _rebase_lines(self) -> list[str]:
        if self.rebased is not None:
            return [f"A new epoch begins with this request: {self.rebased}."]
        if self.quote is None or not self.quote.errata_tokens:
            return []
        return [
            f"A rebase was considered: it would cost {self.quote.cost:,.0f} full-priced tokens; reading "
            f"{self.quote.errata_tokens:,} tokens of errata again has cost {self.quote.paid:,.0f} so far."
        ]

    def _errata_lines(self) -> list[str]:
        lines: list[str] = []
        if self.replayed:
            tokens = sum(size for _, size in self.replayed)
            places = ", ".join(str(after) for after, _ in self.replayed[-MAX_LINES:])
            lines.append(f"Replayed as sent: {len(self.replayed)} errata, about {tokens:,} tokens ({_AFTER} {places}).")
        if self.new_after is not None:
            where = f"after message {self.new_after} as {self.new_carrier}"
            lines.append(f"New: one erratum {where}, about {self.new_tokens} tokens, which says:")
        elif self.told:
            lines.append("Not told in this request, because there is no legal place for an erratum:")
        else:
            lines.append("Nothing new to tell.")
        for line in self.told[:MAX_LINES]:
            lines.append(f"  {line.path}: {line.text or 'removed'}{_NOTES.get(line.why, '')}")
        if len(self.told) > MAX_LINES:
            lines.append(f"  ... and {len(self.told) - MAX_LINES} more")
        return lines


def _prediction_line(known: Prediction) -> str:
    if not known.known:
        return "Nothing is known of this provider's cache, so nothing can be predicted."
    condition = ", if markers stand where plan_breakpoints says" if known.marked else ""
    return (
        f"The cache should serve {known.read:,} tokens ({known.cached_share:.0%}){condition}; "
        f"{known.written:,} are written to it and {known.fresh:,} read at full price ({known.method})."
    )


_KEPT = "The prefix of the last request is kept."
_NOT_KEPT = "The prefix of the last request is not kept."
_AFTER = "after messages"
_NOTES = {"restated": " (critical, said again)", "new": " (new)"}


def explain(plan: TurnPlan, messages: Sequence[Message] | None = None) -> Explanation:
    """Say what is in the head, which errata are replayed and new and why, what broke the prefix, and what will hit.

    Args:
        plan: The plan.
        messages: The messages that it was made for; with them, the cache is simulated.

    Returns:
        The explanation.
    """
    epoch, erratum = plan.epoch, plan.erratum
    return Explanation(
        head_tokens=estimate_tokens(plan.system),
        baseline_fields=len(epoch.baseline),
        epoch=epoch.number,
        began=epoch.reason,
        rebased=plan.rebased,
        replayed=tuple((it.after, estimate_tokens(it.text)) for it in plan.insertions if not it.is_new),
        new_after=plan.insertions[-1].after if erratum is not None else None,
        new_carrier=erratum.carrier if erratum is not None else None,
        new_tokens=plan.appended_tokens,
        told=tuple(_told(change, plan) for change in plan.changes),
        kept=plan.kept,
        notices=plan.notices,
        quote=plan.quote,
        prediction=predict(plan, messages) if messages is not None else None,
    )


def _told(change: Change, plan: TurnPlan) -> ToldChange:
    if change.kind == "remove":
        why = "removed"
    elif change.path in plan.restated:
        why = "restated"
    elif not change.edits and is_stale(change.text):
        why = "stale"
    elif change.path in plan.epoch.baseline or _is_in_older_errata(change.path, plan):
        why = "changed"
    else:
        why = "new"
    return ToldChange(change.path, change.text, why)


def _is_in_older_errata(path: str, plan: TurnPlan) -> bool:
    older = (erratum for erratum in plan.epoch.errata if erratum is not plan.erratum)
    return any(change.path == path for erratum in older for change in erratum.changes)


def transcript(plan: TurnPlan, messages: Sequence[Message]) -> str:
    """The exact wire form, for reading, with errata marked.

    Args:
        plan: The plan of the request.
        messages: The messages that it was made for.

    Returns:
        One paragraph a message, headed by its role; a marker before each one that carries an erratum.
    """
    lines: list[str] = []
    for message, errata in marked_wire(plan, messages):
        marks = ["new erratum" if erratum.is_new else "replayed erratum" for erratum in errata]
        title = ", ".join([message.role, *marks])
        calls = [f"-> {call.name}({dict(call.arguments)})" for call in message.tool_calls]
        body = message.content if isinstance(message.content, str) else message.text
        lines.append("\n".join(part for part in (f"[{title}]", body, *calls) if part))
    return "\n\n".join(lines)

"""A witness of a conversation: what was recorded, and what must hold on the next request (I1 to I7).

It keeps the requests themselves, as they went out, and shares no code with the library but the record types and the
snapshot of the state. A conversation may branch: the request that the next one must extend is the last one *of its own
branch*, the one whose messages and answer it goes on from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pkv_agents import LeafMeta, Message, Profile, Snapshot, TurnPlan, wire
from tests.core.strategies import SECRET, TAG, believed

REASONS = frozenset(
    ("cache_cold", "errata_limit", "field_hidden", "history_rewritten", "instructions_changed", "payback")
) | {"pinned_changed", "style_changed"}
QUIET = frozenset(("erratum_waits", "orphan_tool_result"))
"""What may be said about a request that breaks nothing: it says less than it should, or not all that it was given."""
_NO_PLACE = frozenset(("rebase_requested", "cache_cold", "payback"))
"""What no field and no message did."""
_STALE = re.compile(r' \(stale since "([^"]+)"\)$')
_OURS = re.compile(r"<\s*/?\s*state|\[\[\s*/?\s*state", re.IGNORECASE)


@dataclass(frozen=True, repr=False)
class Recorded:
    """A request that was recorded, with its answer where that was recorded, too."""

    messages: tuple[Message, ...]
    wire: tuple[Message, ...]
    model: str
    epoch: int
    answer: Message | None = None

    def __repr__(self) -> str:
        """Short, for hypothesis' reports."""
        return f"Recorded({len(self.messages)} messages, {self.model}, epoch {self.epoch}, answer {self.answer})"

    def leads_to(self, messages: Sequence[Message], answered: bool = True) -> bool:
        """Whether a history goes on from this request (and its answer)."""
        size = len(self.messages)
        if tuple(messages[:size]) != self.messages:
            return False
        return len(messages) == size or not answered or self.answer is None or messages[size] == self.answer


def extends(longer: Sequence[Message], shorter: Sequence[Message]) -> bool:
    """Whether one wire form begins with another, byte for byte; only the last text may have grown."""
    if len(longer) < len(shorter) or tuple(longer[: len(shorter) - 1]) != tuple(shorter[:-1]):
        return False
    one, two = longer[len(shorter) - 1], shorter[-1]
    return one.role == two.role and one.tool_calls == two.tool_calls and one.text.startswith(two.text)


def text_of(sent: Sequence[Message]) -> str:
    """All that a model reads of a request."""
    shown = [(message.text, json.dumps([dict(call.arguments) for call in message.tool_calls])) for message in sent]
    return "\n".join(part for pair in shown for part in pair)


class Witness:
    """Remembers the recorded requests of one conversation and checks each new one against them."""

    def __init__(self) -> None:
        self.recorded: list[Recorded] = []
        self._forms: dict[tuple[int, int, str], str] = {}

    def branch(self, messages: Sequence[Message]) -> list[Recorded]:
        """The recorded requests that a history goes on from, the last one of its branch last."""
        found = [(len(one.messages), at, one) for at, one in enumerate(self.recorded) if one.leads_to(messages)]
        # Where an answer is known by its request, requests with unknown answers at that place are others.
        known = {size for size, _, one in found if one.answer is not None and size < len(messages)}
        return [one for size, _, one in sorted(found, key=lambda f: f[:2]) if one.answer or size not in known]

    def record(self, turn: TurnPlan, messages: Sequence[Message], answer: Message | None = None) -> None:
        """A request that succeeded."""
        made = Recorded(tuple(messages), wire(turn, messages), turn.sent.model, turn.epoch.number, answer)
        self.recorded.append(made)
        for one in turn.insertions:
            if one.is_new:
                self._forms[turn.epoch.number, one.after - turn.leading, one.text] = one.carrier

    def check(
        self,
        turn: TurnPlan,
        messages: Sequence[Message],
        true: Snapshot,
        *,
        asked: str | None = None,
        torn: bool = False,
        refuses: bool = False,
    ) -> tuple[Message, ...]:
        """All invariants of one request; returns its wire form. Records that a store lost (`torn`) are not extended.

        An endpoint that takes no system turns (`refuses`) is given them in the other form.
        """
        sent = wire(turn, messages)
        self._check_belief(turn, sent, messages, true)
        _check_nothing_forged(turn, sent, messages)
        _check_slots(sent, turn.profile)
        assert turn.rebased is None or turn.rebased in (REASONS | {asked})
        for one in turn.insertions:  # I3: in the form in which it was sent, wherever this provider takes that
            form = self._forms.get((turn.epoch.number, one.after - turn.leading, one.text), one.carrier)
            takes = turn.profile.carrier == "system" and turn.profile.system_slot == "anywhere"
            assert one.is_new or one.carrier == form or (form == "system" and (refuses or not takes))
        if not torn:
            self._check_prefix(turn, sent, messages)
        return sent

    def _check_belief(
        self, turn: TurnPlan, sent: Sequence[Message], messages: Sequence[Message], true: Snapshot
    ) -> None:
        """I2: a reader believes what may be shown, or was not told and the plan says so."""
        known = believed(sent)
        # (An empty text: an edit of what this reader was never told. Whatever it made of it, the whole is told next.)
        told = {path: text for path, text in turn.told.items() if text}
        assert {path: text for path, text in known.items() if turn.told.get(path) != ""} == told
        wrong = [path for path in {**known, **true.leaves} if not agrees(path, known, true)]
        if not wrong:
            return
        assert turn.erratum is None and turn.changes, wrong
        waits = [notice for notice in turn.notices if notice.code == "erratum_waits"]
        assert all(notice.path and notice.cost for notice in waits)
        # Before the first message only what is never in a baseline is missing; it is told beside that message.
        assert waits or (len(messages) == turn.leading and all(true.meta[path].volatile for path in wrong))

    def _check_prefix(self, turn: TurnPlan, sent: Sequence[Message], messages: Sequence[Message]) -> None:
        """I1 and I7: the branch's requests to this model are extended, or it is said what broke and what it costs."""
        branch = self.branch(messages)
        own = [one for one in branch if one.model == turn.sent.model and one.epoch == turn.epoch.number]
        # A newer head was announced by the request that brought it, be it to another model or with another answer.
        newer = [one for one in self.recorded if one.epoch == turn.epoch.number and one.leads_to(messages, False)]
        broken = bool(branch and messages) and (
            branch[-1].epoch > turn.epoch.number or (branch[-1].epoch < turn.epoch.number and not newer)
        )
        broken = broken or any(not extends(sent, one.wire) for one in own[-1:])
        said = [notice for notice in turn.notices if notice.code not in QUIET and notice.code != "below_minimum"]
        assert all(notice.cost and (notice.path or notice.code in _NO_PLACE) for notice in said)
        if broken:
            assert said, f"{turn.explain()}"
        if turn.rebased is not None:
            assert said
        elif self.recorded and self.recorded[-1] in branch and not broken:
            assert not said, said  # the history goes on from the last request, and nothing is lost


def agrees(path: str, known: Mapping[str, str], true: Snapshot) -> bool:
    """Whether what is believed at a path is true: letter by letter, but for a resolution and the mark of staleness."""
    meta = true.meta.get(path, LeafMeta())
    told, text = known.get(path), true.leaves.get(path)
    if told is not None and meta.ttl is not None:
        told = _STALE.sub("", told)
    if told == text:
        return True
    if told is None or text is None or not meta.volatile or meta.resolution is None:
        return False
    if isinstance(meta.resolution, timedelta):
        moved: float = abs(_moment(told) - _moment(text)) / meta.resolution
    else:
        moved = abs(float(told) - float(text)) / meta.resolution
    return moved < 1


def stale_since(text: str) -> datetime | None:
    """Since when a line says that its value is stale; None where it does not."""
    match = _STALE.search(text)
    return datetime.fromisoformat(match[1]) if match is not None else None


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(json.loads(text))


def _check_nothing_forged(turn: TurnPlan, sent: Sequence[Message], messages: Sequence[Message]) -> None:
    """I5: as many blocks as were inserted, nothing else that looks like one, and secrets nowhere."""
    text = text_of(sent)
    blocks = len(turn.insertions)
    opened = text.count(f'<state-update id="{TAG}">') + text.count(f"[[state-update {TAG}]]")
    assert opened == blocks + 1  # the declaration names the marker once
    assert text.count(f'<state id="{TAG}">') + text.count(f"[[state {TAG}]]") == 1
    assert len(_OURS.findall(text)) == 2 * blocks + 3
    ours = [turn.epoch.baseline_text, *(insertion.text for insertion in turn.insertions)]
    assert all("<|" not in block and "[INST]" not in block and "[SYSTEM]" not in block for block in ours)
    assert SECRET not in text and SECRET not in repr(turn)


def _check_slots(sent: Sequence[Message], profile: Profile) -> None:
    """Where blocks may stand: never first, two in a row, on the assistant's words or between a call and its results."""
    for before, message, after in zip(sent, sent[1:], (*sent[2:], None), strict=False):
        if message.role == "system":
            assert before.role != "system" and not before.tool_calls and profile.carrier == "system"
            assert after is None or after.role != "tool"
            if profile.system_slot == "before_assistant":
                assert before.role in ("user", "tool") and (after is None or after.role == "assistant")
        elif message.role == "assistant" or (message.role == "tool" and after is not None and after.role == "tool"):
            assert f'<state-update id="{TAG}">' not in message.text

"""A long run: a field that toggles each turn, told by errata on one cache that only grows.

Each turn is held against a clean prefill of a head with the value as it is. If errata wore off, the last third of the
turns would agree less than the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks._arms import history_of
from benchmarks._cases import Case
from benchmarks._modes import Pair, Question, Subject, common, system_text
from examples.support_agent.policy import Request
from examples.support_agent.schema import Shop
from pkv_agents import AgentSession, Message, RebasePolicy, render_baseline, snapshot, wire
from pkv_agents.kv import KVSegment

_NEVER = RebasePolicy(payback=None, floor_tokens=1 << 30, statements=1 << 30)


@dataclass(frozen=True, slots=True)
class ToggleRow:
    """One turn of the long run.

    Attributes:
        seed: The world.
        turn: Which turn.
        tokens: Of its prompt.
        ours: Whether errata make the model name the right value and take the right tool.
        clean: The same of the clean prefill.
    """

    seed: int
    turn: int
    tokens: int
    ours: bool
    clean: bool


def toggle_rows(pair: Pair, turns: int) -> Iterator[ToggleRow]:
    """The run on the world of a pair; its state stands behind the policy."""
    subject, case = pair.subject, _toggling(pair, turns)
    told: KVSegment | None = None
    clean: dict[bool, KVSegment] = {}
    for turn, (messages, ids) in enumerate(told_by_session(subject, case)):
        is_new = turn % 2 == 1
        told = _grown(subject, told, ids)
        oracle = clean_ids(subject, case, case.states()[turn], messages)
        clean[is_new] = _grown(subject, clean.get(is_new), oracle)  # there are but two heads, and histories only grow
        right = [(d.is_new if is_new else d.is_old) for d in map(pair.decide, (told, clean[is_new]))]
        yield ToggleRow(case.seed, turn, len(ids), *right)


def _grown(subject: Subject, segment: KVSegment | None, ids: list[int]) -> KVSegment:
    """The cache of a prompt: one that it begins with goes on, which gives what a prefill gives."""
    kept = common(segment.ids.tolist(), ids) if segment is not None else 0
    if segment is None or kept < len(segment):
        return subject.segments.prefill(ids).segment
    return subject.segments.forward(segment, ids[kept:]).segment


def told_by_session(subject: Subject, case: Case) -> Iterator[tuple[list[Message], list[int]]]:
    """Of each turn its messages without errata, and the ids of what a session sends that never begins a new epoch."""
    history = history_of(case)
    session = AgentSession(
        case.world.shop.model_copy(deep=True),
        key="long",
        instructions=case.world.policy,
        profile=subject.engine.profile,
        tag=case.tag,
        rebase_policy=_NEVER,
    )
    for turn, request in enumerate(case.world.requests):
        messages = history[: 3 * turn + 1]
        session.update(request.patch)
        plan = session.plan(messages)
        assert plan.rebased is None, "the policy allows no rebase"
        yield messages, subject.ids(wire(plan, messages))
        session.commit(plan)


def clean_ids(subject: Subject, case: Case, state: Shop, messages: list[Message]) -> list[int]:
    """The ids of a prompt whose head, policy first, holds a state as it is, and whose history holds no errata."""
    now = render_baseline(snapshot(state).without_volatile(), tag=case.tag)
    text = system_text(case, f"{case.world.policy}\n\n{now}", "after")
    return subject.ids([Message("system", text), *messages])


def _toggling(pair: Question, turns: int) -> Case:
    """The case of a pair with a conversation in which its field toggles and is asked about, turn after turn."""
    case, question = pair.case, pair.case.question
    requests: list[Request] = []
    for turn in range(turns):
        patch = {case.path: pair.values[turn % 2]} if turn else {}
        requests.append(replace(question, patch=patch))
    return replace(case, world=replace(case.world, requests=tuple(requests)))

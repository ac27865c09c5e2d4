"""Long runs: a field that toggles each turn, and what comes after the first token.

`toggles`: every turn tells the other value by an erratum, on one cache that only grows; each turn is held against a
clean prefill of a head with the value as it is. If errata wore off, the last third would agree less than the first.

`continuations`: behind the clean prefill the model writes greedily; each arm is then shown the same tokens. Where its
own choice first differs is where its greedy answer would part from the clean one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from benchmarks._arms import _history  # pyright: ignore[reportPrivateUsage] -- the same history as the other arms'
from benchmarks._cases import Case
from benchmarks._modes import Pair, Subject, common, divergence, system_text
from examples.support_agent.policy import Request
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


@dataclass(frozen=True, slots=True)
class ContinuationRow:
    """One arm behind one prompt.

    Attributes:
        seed: The case.
        arm: The arm.
        tokens: How many tokens were shown.
        kl_mean: Divergence from the clean prefill, the mean over them, in nats.
        kl_most: The largest of them.
        parts_at: The first token at which its own choice differs; None: nowhere.
    """

    seed: int
    arm: str
    tokens: int
    kl_mean: float
    kl_most: float
    parts_at: int | None


def toggle_rows(pair: Pair, turns: int) -> Iterator[ToggleRow]:
    """The run on the world of a pair; its state stands behind the policy."""
    subject, case = pair.subject, _toggling(pair, turns)
    states, history = case.states(), _history(case)
    session = AgentSession(
        case.world.shop.model_copy(deep=True),
        key="long",
        instructions=case.world.policy,
        profile=subject.engine.profile,
        tag=case.tag,
        rebase_policy=_NEVER,
    )
    segment: KVSegment | None = None
    for turn, request in enumerate(case.world.requests):
        messages = history[: 3 * turn + 1]
        session.update(request.patch)
        plan = session.plan(messages)
        assert plan.rebased is None, "the policy allows no rebase"
        ids = subject.ids(wire(plan, messages))
        session.commit(plan)
        kept = common(segment.ids.tolist(), ids) if segment is not None else 0
        if segment is None or kept < len(segment):
            segment = subject.segments.prefill(ids).segment
        else:
            segment = subject.segments.forward(segment, ids[kept:]).segment
        now = render_baseline(snapshot(states[turn]).without_volatile(), tag=case.tag)
        head = Message("system", system_text(case, f"{case.world.policy}\n\n{now}", "after"))
        clean = subject.segments.prefill(subject.ids([head, *messages])).segment
        is_new = turn % 2 == 1
        ours, truth = pair.decide(segment), pair.decide(clean)
        right = [bool(d.names_new is is_new and d.takes_new is is_new) for d in (ours, truth)]
        yield ToggleRow(case.seed, turn, len(ids), *right)


def continuation_rows(pair: Pair, size: int, *, keep: int) -> list[ContinuationRow]:
    """Every arm of a pair, and the system text put in place as a skill, over `size` tokens."""
    segments = pair.subject.segments
    base = pair.prefilled()
    arms: dict[str, Callable[[], KVSegment]] = {**pair.arms(base, keep=keep)}
    spliced = pair.prefilled(as_skill=True)
    rest = pair.old[pair.turn :]
    old = segments.prefill(list(pair.old)).segment
    truth, written = _written(pair.subject, segments.prefill(list(pair.new)).segment, size)
    rows = [_shown(pair, arm, make(), truth, written) for arm, make in arms.items() if not arm.startswith("selective")]
    truth, written = _written(pair.subject, old, size)
    rows.append(_shown(pair, "splice", segments.forward(spliced, rest).segment, truth, written))
    return rows


def _written(subject: Subject, segment: KVSegment, size: int) -> tuple[list[object], list[int]]:
    """What the model writes greedily behind a prompt, and the logits by which it chose each token."""
    done = subject.segments.forward(segment.slice(0, len(segment) - 1), segment.ids[-1:].tolist())
    logits: list[object] = []
    written: list[int] = []
    for _ in range(size):
        assert done.logits is not None
        logits.append(done.logits)
        written.append(int(done.logits.argmax()))
        done = subject.segments.forward(done.segment, written[-1:])
    return logits, written


def _shown(pair: Pair, arm: str, segment: KVSegment, truth: list[object], written: list[int]) -> ContinuationRow:
    import torch

    segments = pair.subject.segments
    done = segments.forward(segment.slice(0, len(segment) - 1), segment.ids[-1:].tolist())
    distances: list[float] = []
    parts_at: int | None = None
    for index, (token, wanted) in enumerate(zip(written, truth, strict=True)):
        assert done.logits is not None and isinstance(wanted, torch.Tensor)
        distances.append(divergence(wanted, done.logits))
        if parts_at is None and int(done.logits.argmax()) != token:
            parts_at = index
        done = segments.forward(done.segment, [token])
    mean = sum(distances) / len(distances)
    return ContinuationRow(pair.case.seed, arm, len(written), round(mean, 5), round(max(distances), 5), parts_at)


def _toggling(pair: Pair, turns: int) -> Case:
    """The case of a pair with a conversation in which its field toggles and is asked about, turn after turn."""
    case, question = pair.case, pair.case.question
    requests: list[Request] = []
    for turn in range(turns):
        patch = {case.path: pair.values[turn % 2]} if turn else {}
        requests.append(replace(question, patch=patch))
    return replace(case, world=replace(case.world, requests=tuple(requests)))

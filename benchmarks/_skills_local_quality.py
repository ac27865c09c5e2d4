"""How far an answer behind a compiled skill is from one behind a clean prefill of the same tokens, beside controls.

Three places are compared: the end of the prompt, where the deciding field's value is named, and where the tool is
chosen behind the right line. The last hangs on the skill's rules. A divergence of some size means nothing by itself:
the controls say what a skill that is moved without turning its keys, is read backwards, or is not there comes to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from benchmarks._modes import common, divergence
from benchmarks._modes_splice import CLEAR
from benchmarks._skills_local import SMALL_TALK, Asked, Place, tools
from pkv_agents import Message, wire
from pkv_agents.kv import Forwarded, KVSegment, Placed, SegmentModel, compile_segment, compose, splice
from pkv_agents.local import SKILL_PREAMBLE, SKILL_SEAM, Conversation, LocalModel, find_skills

SEAMS = (0, 1, 4, 16)
EXACT_ARM = "compiled in this place"


@dataclass(frozen=True, slots=True)
class QualityRow:
    """One shop, one arm.

    Attributes:
        seed: The shop.
        place: Where the skill stands.
        arm: How it came there.
        tokens: Of the skill.
        shift: Tokens between where it was compiled and where it stands.
        kl_end: Divergence from the clean prefill at the end of the prompt, in nats.
        kl_value: The same where the deciding value is named.
        kl_tool: The same where the tool is chosen.
        agrees: Whether value and tool are the clean prefill's.
        margin: Logits between the clean prefill's two best tools; a small one is a near-tie.
        right: Whether the clean prefill chooses the tool that the rules want.
    """

    seed: int
    place: Place
    arm: str
    tokens: int
    shift: int
    kl_end: float
    kl_value: float
    kl_tool: float
    agrees: bool
    margin: float
    right: bool

    @property
    def clear(self) -> bool:
        """Whether the clean prefill's choice is no near-tie."""
        return self.margin >= CLEAR


@dataclass(frozen=True, slots=True)
class WholeRow:
    """One shop's turn through the public interface, with a compiled skill and with a clean prefill.

    Attributes:
        seed: The shop.
        place: Where the skill stands.
        grade: What the answer with the compiled skill says of itself.
        same_tool: Whether both call the same tool.
        same_call: Whether both write the same line and the same arguments too.
        margin: Of the clean prefill's choice.
    """

    seed: int
    place: Place
    grade: str
    same_tool: bool
    same_call: bool
    margin: float


def whole_row(engine: LocalModel, asked: Asked) -> WholeRow:
    """A turn in each way, in a session and an engine state of its own."""
    calls: list[tuple[str, str, str]] = []
    grade, margin = "", 0.0
    for skills in ((), asked.registry):
        engine.clear_cache()
        session = asked.session(engine)
        talk = Conversation(
            engine,
            session,
            skills=skills,
            later_skills=True,
            options={"tools": tools(), "tool_choice": "any", "preface": 64},
        )
        reply = talk.answer(history_of(asked, talk)).reply
        called = reply.tool_calls[0]
        calls.append((called.name, reply.text, str(sorted(called.arguments.items()))))
        grade, margin = reply.grade, margin or reply.decision_margin or 0.0
    one, two = calls
    return WholeRow(asked.case.seed, asked.place, grade, one[0] == two[0], one == two, round(margin, 3))


def history_of(asked: Asked, talk: Conversation) -> list[Message]:
    """The messages up to the question, each turn before it answered by one token."""
    return asked.history(
        talk.session, lambda messages: talk.answer(messages, tool_choice="none", max_tokens=1).reply.message
    )


def quality_rows(engine: LocalModel, asked: Asked, *, reverse: bool) -> Iterator[QualityRow]:
    """Every arm on one shop; the control whose tokens are reversed, which costs a prefill, if it is wanted."""
    segments, encode = engine.segments, engine.template.encode
    ids = _prompt(engine, asked)
    found = find_skills(ids, [encode(asked.text)])[0]
    front, rest = ids[: found.start], ids[found.stop :]
    (path, value), tool = asked.answer()
    actions = asked.case.world.rules[asked.case.question.topic].actions
    other = next(name for _, name in actions if name != tool)
    one, two = (encode(f'{path}: {value}\n{{"name":"{name}"') for name in (tool, other))
    lines = encode(f'{path}: "'), one[: common(one, two)]
    clean = segments.prefill(ids)
    truth = _places(segments, clean, lines)
    best = torch.topk(truth[2], 2)
    margin, right = float(best.values[0] - best.values[1]), int(best.indices[0]) == one[len(lines[1])]
    head, preamble = clean.segment.slice(0, len(front)), engine.template.preamble(SKILL_PREAMBLE)
    at_home = Placed(found.start, clean.segment.slice(found.start, found.stop))
    for arm, made in _arms(segments, ids, head, rest, preamble, at_home, reverse):
        have = _places(segments, made, lines)
        kl = [round(divergence(want, got), 6) for want, got in zip(truth, have, strict=True)]
        agrees = all(int(want.argmax()) == int(got.argmax()) for want, got in zip(truth[1:], have[1:], strict=True))
        shift = 0 if arm == EXACT_ARM else len(front) - len(preamble)
        yield QualityRow(
            asked.case.seed,
            asked.place,
            arm,
            len(found.ids),
            shift,
            kl[0],
            kl[1],
            kl[2],
            agrees,
            round(margin, 3),
            right,
        )


def _prompt(engine: LocalModel, asked: Asked) -> list[int]:
    session = asked.session(engine)
    replies = dict(SMALL_TALK)

    def answer(messages: Sequence[Message]) -> Message:
        session.commit(session.plan(messages), answer=(reply := replies[messages[-1]]))
        return reply

    history = asked.history(session, answer)
    return engine.render_ids(wire(session.plan(history), history), tools())


def _arms(
    segments: SegmentModel,
    ids: Sequence[int],
    head: KVSegment,
    rest: list[int],
    preamble: list[int],
    at_home: Placed,
    reverse: bool,
) -> Iterator[tuple[str, Forwarded]]:
    skill = at_home.segment.ids.tolist()
    compiled = compile_segment(segments, skill, preamble=preamble)
    for seam in SEAMS:
        name = f"seam {seam}" + (" (the default)" if seam == SKILL_SEAM else "")
        yield name, splice(segments, head, [compiled], query=rest, seam=seam)
    yield EXACT_ARM, compose(segments, ids, [at_home])
    moved = compiled.moved(head.stop)
    yield "control: no rotation", splice(segments, head, [replace(moved, written=moved.positions)], query=rest)
    if reverse:
        turned = compile_segment(segments, skill[::-1], preamble=preamble)
        yield "control: tokens reversed", splice(segments, head, [replace(turned, ids=skill)], query=rest)
    yield "control: skill absent", segments.forward(head, rest)


def _places(segments: SegmentModel, done: Forwarded, lines: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """Logits at the end of a prompt and behind pieces of its answer."""
    found = [done.logits, *(segments.forward(done.segment, line).logits for line in lines)]
    return [logits for logits in found if logits is not None]

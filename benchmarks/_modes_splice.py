"""How far a spliced policy is from a clean prefill, with control rows that show what each number means.

The policy is compiled apart, whole or in parts, and put into the prompt; what stands before it and behind it is
computed. Two places are compared with the clean prefill: the end of the prompt, and where the tool is chosen (behind
the clean answer's line), which hangs on the policy's rules. Cosine would call all of these rows equal; the control rows
say what is bad.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from benchmarks._modes import Pair, common, divergence
from pkv_agents.kv import Forwarded, KVSegment, compile_segment, splice
from pkv_agents.local import find_skills

CLEAR = 1.0
"""Logits between the best and the second-best token from which a decision is no near-tie."""
SEAMS = (0, 1, 4, 16)
SKILLS = 4
"""Over how many skills the sections of a policy are spread."""
BLOCKS = (4, 16)


@dataclass(frozen=True, slots=True)
class SpliceRow:
    """One world, one way to splice.

    Attributes:
        seed: The world.
        arm: The way.
        tokens: Of what was compiled.
        kl_end: Divergence from the clean prefill at the end of the prompt, in nats.
        kl_tool: The same where the tool is chosen.
        agrees: Whether the tool's next token is the clean prefill's.
        clear: Whether the clean prefill's choice there is no near-tie.
    """

    seed: int
    arm: str
    tokens: int
    kl_end: float
    kl_tool: float
    agrees: bool
    clear: bool


class Spliced:
    """A prompt of which some text was compiled apart.

    Args:
        pair: The prompt: that with the old head.
        text: A text that stands in its head.
    """

    def __init__(self, pair: Pair, text: str) -> None:
        self.pair, self.subject, self.segments = pair, pair.subject, pair.subject.segments
        ids = list(pair.old)
        found = find_skills(ids[: self.subject.template.head_size(ids)], [self.subject.encode(text)])[0]
        self.skill, self.rest = list(found.ids), ids[found.stop :]
        clean = self.segments.prefill(ids)
        self.head = clean.segment.slice(0, found.start)
        (value, _), (tool, other) = pair.values, pair.tools
        first, second = pair.answer(value, tool), pair.answer(value, other)
        self._line = first[: common(first, second)]
        self._truth = self._places(clean)
        best = torch.topk(self._truth[1], 2).values
        self.clear = float(best[0] - best[1]) >= CLEAR

    def parts(self, cuts: Sequence[int], *, preamble: bool = True) -> list[KVSegment]:
        """The skill's parts between these tokens, each compiled alone."""
        ends = [0, *cuts, len(self.skill)]
        before = self.subject.preamble if preamble else ()
        pieces = [self.skill[a:b] for a, b in zip(ends, ends[1:], strict=False)]
        return [compile_segment(self.segments, piece, preamble=before) for piece in pieces]

    def token_at(self, offset: int) -> int:
        """The token of the skill that begins at a character of its text, or the next one behind it."""
        size = 0
        for index, token in enumerate(self.skill):
            if size >= offset:
                return index
            size += len(self.subject.template.text_of([token]))
        return len(self.skill)

    def placed(self, parts: Sequence[KVSegment], seam: int) -> Forwarded:
        """The prompt with these parts in place of the skill."""
        return splice(self.segments, self.head, parts, query=self.rest, seam=seam)

    def row(self, arm: str, done: Forwarded) -> SpliceRow:
        """What came of one way to make the prompt."""
        end, choice = self._places(done)
        agrees = int(choice.argmax()) == int(self._truth[1].argmax())
        kl = round(divergence(self._truth[0], end), 5), round(divergence(self._truth[1], choice), 5)
        return SpliceRow(self.pair.case.seed, arm, len(self.skill), *kl, agrees, self.clear)

    def _places(self, done: Forwarded) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits at the end of a prompt and behind an answer's line."""
        choice = self.segments.forward(done.segment, self._line).logits
        assert done.logits is not None and choice is not None
        return done.logits, choice


def splice_rows(pair: Pair) -> list[SpliceRow]:
    """Every arm on one world; the state stands behind the policy."""
    policy = pair.case.world.policy
    made = Spliced(pair, policy)
    return [made.row(arm, done) for arm, done in _arms(made, policy)]


def section_cuts(policy: str, parts: int) -> list[int]:
    """At which characters a policy of at least so many sections falls into that many parts of whole sections."""
    starts = [found.start() for found in re.finditer(r"^## ", policy, re.MULTILINE)]
    return [starts[len(starts) * part // parts] for part in range(1, parts)]


def _arms(made: Spliced, policy: str) -> Iterator[tuple[str, Forwarded]]:
    size, sections = len(made.skill), [made.token_at(cut) for cut in section_cuts(policy, SKILLS)]
    for preamble in (True, False):
        words = "preamble" if preamble else "no preamble"
        for count, cuts in ((1, []), (SKILLS, sections)):
            parts = made.parts(cuts, preamble=preamble)
            for seam in SEAMS:
                yield f"{count} {'skills' if count > 1 else 'skill'}, {words}, seam {seam}", made.placed(parts, seam)
    for blocks in BLOCKS:
        cuts = [size * index // blocks for index in range(1, blocks)]
        yield f"cut into {blocks} blocks, preamble, seam 4", made.placed(made.parts(cuts), 4)
    (behind,) = made.parts([])
    moved = behind.moved(made.head.stop)
    yield "control: no rotation", made.placed([replace(moved, written=moved.positions)], 0)
    turned = compile_segment(made.segments, made.skill[::-1], preamble=made.subject.preamble)
    yield "control: tokens reversed", made.placed([replace(turned, ids=made.skill)], 0)
    yield "control: skill absent", made.segments.forward(made.head, made.rest)

"""Two facts that need each other, compiled as one block or as two: does the decision stay the clean prefill's?

    rule and state     [ policy | state ]           the rule names the field, the state holds its value
    inside a rule      [ ## Refund, ... | - On a refund request, if the order's status is "lost", call ... ]

The cut is where the bar is. Compiled apart, neither block has read the other; the question has to put them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks._modes import Pair
from benchmarks._modes_splice import Spliced
from examples.support_agent.policy import rule_lines
from pkv_agents.local import SKILL_SEAM

SEAMS = (0, SKILL_SEAM)


@dataclass(frozen=True, slots=True)
class FactRow:
    """One world, one pair of facts, one way to compile them.

    Attributes:
        seed: The world.
        facts: Which two.
        blocks: In how many blocks they were compiled.
        seam: Tokens at the start of each block that were computed in their place.
        kl_tool: Divergence from the clean prefill where the tool is chosen, in nats.
        agrees: Whether value and tool are decided as behind the clean prefill.
        right: Whether the clean prefill decides rightly.
    """

    seed: int
    facts: str
    blocks: int
    seam: int
    kl_tool: float
    agrees: bool
    right: bool


def fact_rows(pair: Pair) -> Iterator[FactRow]:
    """Every way on one world; the state stands behind the policy, and nothing has changed yet."""
    clean = pair.decide(pair.subject.segments.prefill(list(pair.old)).segment)
    for name, (text, cut) in fact_cuts(pair).items():
        made = Spliced(pair, text)
        for blocks, cuts in ((1, []), (2, [made.token_at(cut)])):
            parts = made.parts(cuts)
            for seam in SEAMS:
                done = made.placed(parts, seam)
                agrees = pair.decide(done.segment).same_as(clean)
                kl = made.row(name, done).kl_tool
                yield FactRow(pair.case.seed, name, blocks, seam, kl, agrees, clean.is_old)


def fact_cuts(pair: Pair) -> dict[str, tuple[str, int]]:
    """Of each two facts the text that holds them, and the character at which the second one begins."""
    policy, rule = pair.case.world.policy, pair.case.world.rules[pair.case.question.topic]
    lines = rule_lines(rule).split("\n")
    deciding = lines[[value for value, _ in rule.actions].index(pair.values[0])]
    return {"rule and state": (pair.text, len(policy)), "inside a rule": (policy, policy.index(deciding))}

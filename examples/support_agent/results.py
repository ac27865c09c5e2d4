"""What a run found: a row a turn and arm, totals an arm, and the JSON that holds both.

None means "not reported" and is never turned into 0.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from .arms import ORACLE, Arm
from .script import ScriptName

JSON_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Decision:
    """A tool call: the tool and its arguments. No call at all has an empty name."""

    tool: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        values = ", ".join(str(value) for value in self.arguments.values())
        return f"{self.tool}({values})" if self.tool else "no tool call"


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One turn in one arm.

    Attributes:
        turn: From 1.
        arm: How the model was kept informed.
        request: What the customer wrote.
        outside: What changed since the turn before without the agent's doing, by path.
        changed: All that changed in this arm's state since the turn before, by path, as JSON texts.
        erratum: What was appended to tell it; None where nothing was.
        appended_tokens: The erratum's tokens.
        prompt_tokens: Tokens of the request.
        cached_tokens: Those of them that were not computed again.
        output_tokens: Tokens of the answer.
        ttft_s: Seconds to the first token.
        total_s: Seconds of the model call.
        reason: What the model wrote before its call: by what it decides.
        decision: The tool call that the model made.
        expected: The tool call that the policy wants in the state of this arm.
        policy_correct: Whether they are equal.
        agreement: Whether `rewrite_late` decided the same; None if it did not run.
    """

    turn: int
    arm: Arm
    request: str
    outside: dict[str, str]
    changed: dict[str, str]
    erratum: str | None
    appended_tokens: int
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    ttft_s: float | None
    total_s: float
    reason: str
    decision: Decision
    expected: Decision
    policy_correct: bool
    agreement: bool | None = None

    @property
    def new_tokens(self) -> int | None:
        """Tokens of the request that were computed."""
        if self.prompt_tokens is None or self.cached_tokens is None:
            return None
        return self.prompt_tokens - self.cached_tokens

    @property
    def cached_share(self) -> float | None:
        """The cached part of the request."""
        if not self.prompt_tokens or self.cached_tokens is None:
            return None
        return self.cached_tokens / self.prompt_tokens


@dataclass(frozen=True, slots=True)
class Totals:
    """One arm's sums.

    Attributes:
        turns: How many turns.
        cached_share_after_first: Cached tokens by prompt tokens over all turns but the first.
        ttft_p50_s: The median time to the first token over all turns.
        agreement: On how many turns the decision was the one of `rewrite_late`; None if that did not run.
        policy_correct: On how many turns the decision was right by the policy.
        appended_tokens: Tokens of errata, over the whole conversation.
        prompt_tokens: Tokens of all requests.
        new_tokens: Those of them that were computed.
    """

    turns: int
    cached_share_after_first: float | None
    ttft_p50_s: float | None
    agreement: int | None
    policy_correct: int
    appended_tokens: int
    prompt_tokens: int | None
    new_tokens: int | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """A whole run.

    Attributes:
        model: The model's name.
        script: What was played.
        framework: The agent's framework.
        adapter: The adapter's folder, or None.
        ttft_source: `engine`, `stream` or `call`.
        head_tokens: Tokens before the first message: tools, policy and state.
        tokens_are_estimates: `head_tokens` and `appended_tokens` are estimates: the model's tokenizer is not here.
        started: When, ISO 8601.
        seconds: How long all of it took.
        versions: Of what ran.
        arms: In the order in which they ran.
        rows: All turns of all arms.
        notices: What the library reported, as text.
    """

    model: str
    script: ScriptName
    framework: str
    adapter: str | None
    ttft_source: str
    head_tokens: int
    tokens_are_estimates: bool
    started: str
    seconds: float
    versions: dict[str, str]
    arms: tuple[Arm, ...]
    rows: tuple[TurnRow, ...]
    notices: tuple[str, ...]

    @property
    def turns(self) -> int:
        """How many turns were played."""
        return max((row.turn for row in self.rows), default=0)

    def of(self, arm: Arm) -> list[TurnRow]:
        """The turns of one arm."""
        return [row for row in self.rows if row.arm == arm]

    def totals(self) -> dict[Arm, Totals]:
        """Sums by arm."""
        return {arm: totals(self.of(arm)) for arm in self.arms}

    def to_json(self) -> dict[str, Any]:
        """Plain data: `turns`, `totals.<arm>`, and where they come from."""
        return {
            "format": JSON_FORMAT,
            "model": self.model,
            "script": self.script,
            "framework": self.framework,
            "adapter": self.adapter,
            "head_tokens": self.head_tokens,
            "tokens_are_estimates": self.tokens_are_estimates,
            "ttft_source": self.ttft_source,
            "started": self.started,
            "seconds": round(self.seconds, 1),
            "versions": self.versions,
            "arms": list(self.arms),
            "totals": {arm: asdict(sums) for arm, sums in self.totals().items()},
            "turns": [_row_json(row) for row in self.rows],
            "notices": list(self.notices),
        }


def _row_json(row: TurnRow) -> dict[str, Any]:
    data = asdict(row)
    decision, expected = data.pop("decision"), data.pop("expected")
    return {**data, "new_tokens": row.new_tokens, **decision, "expected": expected}


def with_agreement(rows: Sequence[TurnRow]) -> tuple[TurnRow, ...]:
    """The rows with each decision compared with the oracle's on the same turn."""
    oracle = {row.turn: row.decision for row in rows if row.arm == ORACLE}
    if not oracle:
        return tuple(rows)
    return tuple(replace(row, agreement=row.decision == oracle[row.turn]) for row in rows)


def totals(rows: Sequence[TurnRow]) -> Totals:
    """The sums of one arm's turns."""
    later = [row for row in rows if row.turn > 1]
    cached, prompt = _sum([row.cached_tokens for row in later]), _sum([row.prompt_tokens for row in later])
    times = [row.ttft_s for row in rows if row.ttft_s is not None]
    compared = [row.agreement for row in rows if row.agreement is not None]
    return Totals(
        turns=len(rows),
        cached_share_after_first=None if cached is None or not prompt else cached / prompt,
        ttft_p50_s=statistics.median(times) if times else None,
        agreement=sum(compared) if compared else None,
        policy_correct=sum(row.policy_correct for row in rows),
        appended_tokens=sum(row.appended_tokens for row in rows),
        prompt_tokens=_sum([row.prompt_tokens for row in rows]),
        new_tokens=_sum([row.new_tokens for row in rows]),
    )


def _sum(values: Sequence[int | None]) -> int | None:
    """The sum; None as soon as one is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) and known else None


__all__ = ["Decision", "RunResult", "Totals", "TurnRow", "totals", "with_agreement"]

"""What a report has to know of one turn, whatever framework the agent is made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pkv_agents import Usage, diff, snapshot

from .arms import Arm
from .policy import Request, decide, shop_rules
from .results import Decision, TurnRow
from .scenario import Turn
from .schema import Shop, SkilledShop
from .worlds import skill_rules


def expected_decision(shop: Shop, turn: Turn) -> Decision:
    """What the policy wants in this state. A value that no rule names, "on hold" say, is a case for a person."""
    rules = skill_rules(shop) if isinstance(shop, SkilledShop) else shop_rules()
    try:
        return Decision(*decide(rules, shop, Request({}, turn.topic, turn.order_id, turn.text, turn.town)))
    except KeyError:
        return Decision("escalate_case", {"order_id": turn.order_id})


def turn_row(
    turn: Turn,
    *,
    number: int,
    arm: Arm,
    outside: Mapping[str, str],
    shop: Shop,
    before: Shop | None,
    errata: Sequence[str],
    count: Callable[[str], int],
    usage: Usage,
    ttft_s: float | None,
    total_s: float,
    reason: str,
    calls: Sequence[tuple[str, Mapping[str, Any]]],
) -> TurnRow:
    """What a report has to know of one turn.

    Args:
        turn: The script's.
        number: Which turn it is, from 1.
        arm: How the model was kept informed.
        outside: What changed since the turn before without the agent's doing, in a word or two each.
        shop: The state in which it decided.
        before: The one of the turn before.
        errata: What was appended to tell it.
        count: Counts the tokens of a text.
        usage: Of all model calls of the turn.
        ttft_s: Seconds to the first token.
        total_s: Seconds of the model call.
        reason: What it wrote before its call.
        calls: The tool calls of its answer: several are shown, and equal no decision of the policy's.
    """
    decision = Decision(calls[0][0], dict(calls[0][1])) if len(calls) == 1 else _no_decision(calls)
    expected = expected_decision(shop, turn)
    return TurnRow(
        turn=number,
        arm=arm,
        request=turn.text,
        outside=dict(outside),
        changed=_changed(before, shop),
        erratum="\n".join(errata) or None,
        appended_tokens=sum(map(count, errata)),
        prompt_tokens=usage.input,
        cached_tokens=usage.cache_read,
        output_tokens=usage.output,
        ttft_s=ttft_s,
        total_s=total_s,
        reason=reason,
        decision=decision,
        expected=expected,
        policy_correct=decision == expected,
    )


def _no_decision(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Decision:
    return Decision(" + ".join(name for name, _ in calls), {})


def _changed(before: Shop | None, after: Shop) -> dict[str, str]:
    """What is different, by path; the clock, which always is, aside."""
    if before is None:
        return {}
    changes = diff(snapshot(before).without_volatile(), snapshot(after).without_volatile())
    return {change.path: change.text for change in changes}


__all__ = ["expected_decision", "turn_row"]

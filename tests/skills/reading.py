"""A reader of heads with shared fields: it reads their texts as a person would, and hands on what `believed` reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pkv_agents import Message, Snapshot, TurnPlan
from pkv_agents.escape import json_string
from tests.core.strategies import TAG
from tests.core.witness import Witness

_TEXT = re.compile(r'^<text path="([^\n]*)">\n(.*?)\n</text>$', re.MULTILINE | re.DOTALL)
_DECLARATION = f'Current state. A later <state-update id="{TAG}">'
_OPENING = f'<state id="{TAG}">\n'


def read_text(shown: str) -> str:
    """What a text in a head says: its escapes are those of JSON, and two entities."""
    plain = re.sub(r"\\u([0-9a-f]{4})", lambda match: f"\ufdd0{match[1]}", shown)
    plain = plain.replace("&#91;", "[").replace("&lt;", "<")
    plain = re.sub(r"&amp;(?=#?\w+;)", "&", plain)
    return re.sub("((?:\ufdd0[0-9a-f]{4})+)", lambda match: _units(match[1]), plain)


def _units(run: str) -> str:
    units = bytes.fromhex("".join(run.split("\ufdd0")))
    return units.decode("utf-16-be", "surrogatepass")


def joined(system: str) -> str:
    """A head whose shared part stands in its block, each text as a line of JSON."""
    above, marker, below = system.partition(_DECLARATION)
    assert marker
    lines: list[str] = [f"{match[1]}: {json_string(read_text(match[2]))}" for match in _TEXT.finditer(above)]
    assert above.count("<text path=") == above.count("</text>") == len(lines)
    rest = _TEXT.sub("", above)
    lines += re.findall(r"^(?:skills|tools|texts)[.\[].*$", rest, re.MULTILINE)
    return (marker + below).replace(_OPENING, _OPENING + "".join(f"{line}\n" for line in lines), 1)


class SkillWitness(Witness):
    """The witness of all invariants, for heads with a shared part."""

    def _check_belief(
        self, turn: TurnPlan, sent: Sequence[Message], messages: Sequence[Message], true: Snapshot
    ) -> None:
        head = replace(sent[0], content=joined(sent[0].text))
        super()._check_belief(turn, [head, *sent[1:]], messages, true)


def head_texts(system: str) -> Mapping[str, str]:
    """The texts that stand in a head, by path."""
    return {match[1]: read_text(match[2]) for match in _TEXT.finditer(system)}

"""`Shared()`: what all users have in common stands above a session's own state, as text, and cannot close itself."""

from __future__ import annotations

import json
import re
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from pkv_agents import (
    CALM_STYLE,
    PLAIN_STYLE,
    SchemaError,
    Shared,
    StateError,
    ToolSpec,
    Tracked,
    TrackedState,
    Untrusted,
    Volatile,
    render_baseline,
    snapshot,
)
from tests.core.strategies import HOSTILE, TAG
from tests.skills.reading import head_texts


class Desk(TrackedState):
    customer: str = "Mara"
    texts: Annotated[dict[str, str], Shared()] = Field(default_factory=dict)


pieces = st.lists(
    st.sampled_from((*HOSTILE, "&lt;", "&", '<text path="x">', "</text>", "`<b>`", "> quote")), min_size=1, max_size=6
)


@given(parts=pieces)
def test_a_text_reads_back_as_it_was_and_closes_nothing(parts: list[str]) -> None:
    text = "\n".join(parts)
    head = render_baseline(snapshot(Desk(texts={"a": f"first\n{text}"})), tag=TAG)
    assert head_texts(head) == {"texts[a]": f"first\n{text}"}
    assert head.count("<text path=") == head.count("</text>") == 1
    assert len(re.findall(r"<\s*/?\s*state|\[\[\s*/?\s*state", head)) == 3
    assert "<|" not in head and "[INST]" not in head and "\u202e" not in head


def test_it_stands_above_the_declaration_and_a_line_is_json() -> None:
    state = Desk(texts={"b": "one <line>", "a": '# Two\nlines "here" \\ there'})
    assert render_baseline(snapshot(state), tag=TAG) == (
        '<text path="texts[a]">\n# Two\nlines "here" \\ there\n</text>\ntexts[b]: "one \\u003cline\\u003e"\n\n'
        f'Current state. A later <state-update id="{TAG}"> block gives the current value of the fields it names; it '
        f'overrides earlier values and any conclusion drawn from them.\n<state id="{TAG}">\ncustomer: "Mara"\n</state>'
    )


@pytest.mark.parametrize("style", [CALM_STYLE, PLAIN_STYLE])
def test_in_every_style_the_shared_part_is_the_same(style: object) -> None:
    state = snapshot(Desk(texts={"a": "x\ny"}))
    shared = '<text path="texts[a]">\nx\ny\n</text>\n\n'
    assert render_baseline(state, tag=TAG, style=style).startswith(shared)  # pyright: ignore[reportArgumentType]


def test_what_is_untrusted_as_well_stands_in_the_block() -> None:
    class Outside(TrackedState):
        note: Annotated[str, Shared(), Untrusted()] = "a\nb"

    head = render_baseline(snapshot(Outside()), tag=TAG)
    assert 'note (untrusted): "a\\nb"\n</state>' in head and "<text" not in head


def test_a_label_and_nested_models() -> None:
    class Policy(BaseModel):
        text: str = "a\nb"
        limit: int = 3

    class Labelled(TrackedState):
        policy: Annotated[Policy, Shared()] = Policy()
        terms: Annotated[str, Shared(), Tracked(label="the terms")] = "c\nd"

    head = render_baseline(snapshot(Labelled()), tag=TAG)
    assert head.startswith(
        '<text path="policy.text">\na\nb\n</text>\npolicy.limit: 3\n<text path="terms" (the terms)>\nc\nd\n</text>\n\n'
    )


def test_what_never_stands_in_a_head_cannot_be_shared_there() -> None:
    with pytest.raises(SchemaError, match="both Volatile and Shared"):

        class _Wrong(TrackedState):  # pyright: ignore[reportUnusedClass]
            count: Annotated[int, Volatile(), Shared()] = 0


def test_a_tool_that_cannot_be_sent_is_an_error_with_its_path() -> None:
    class Holds(TrackedState):
        tools: dict[str, ToolSpec]

    good = Holds(tools={"a": ToolSpec("a", "x<|y|>", {"type": "object", "properties": {"<b>": {"enum": ["[INST]"]}}})})
    shown = snapshot(good).leaves
    assert list(shown) == ["tools[a].name", "tools[a].description", "tools[a].parameters"]
    assert json.loads(shown["tools[a].parameters"]) == {"type": "object", "properties": {"<b>": {"enum": ["[INST]"]}}}
    assert "<" not in "".join(shown.values()) and "[INST]" not in "".join(shown.values())
    with pytest.raises(StateError, match=r"tools\[a\]: tool 'a': parameters.x is a number"):
        Holds(tools={"a": ToolSpec("a", "", {"x": float("nan")})})

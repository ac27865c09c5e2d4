"""What is given in the wrong form: an error that names it, its type and the mend; later a tool is left out."""

from __future__ import annotations

from typing import Any

import pytest

from pkv_agents import (
    BRIDGE,
    LOAD_SKILL,
    OPENAI,
    READ_SKILL_FILE,
    SchemaError,
    Skill,
    SkillError,
    SkillRegistry,
    Skills,
    ToolCall,
    ToolError,
    Tools,
    ToolSpec,
    TrackedState,
    allowed_tools,
    answer_skill_call,
    canonical_tool,
    decide_call,
    dump_state,
    load_state,
    qualified,
    start_tools,
    tool_from,
    update_tools,
)
from pkv_agents.skills._sendable import OURS
from tests.skills.talk import AMOUNT, CANCEL, REFUND, TRACK, Desk, Talk

TONE = Skill("tone", "How to write.", "Be brief.")


def pay(amount: int) -> int:
    """Pays."""
    return amount


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"budget": "8000"}, "budget: how many tokens, budget=8000, or None for any number, not a str"),
        ({"budget": 1.5}, "budget: .* not a float"),
        ({"budget": True}, "budget: .* not a bool"),
        ({"budget": -1}, "budget: .* not less than 0"),
        ({"count": 3}, "count: a function from a text to its number of tokens, not a int"),
        ({"count": lambda text: None}, "count: .* not one to a NoneType"),  # pyright: ignore[reportUnknownLambdaType]
        ({"field": 3}, "field: the path of the state's Skills, field='skills', not a int"),
    ],
)
def test_options_of_a_registry(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SkillError, match=says):
        SkillRegistry([TONE], **options)


def test_a_whole_state_where_its_field_is_needed() -> None:
    registry, desk = SkillRegistry([TONE]), Desk()
    wrong: Any = desk
    says = r"a Skills is needed, not a Desk; pass the state's field, state\.skills"
    for call in (registry.load, registry.retire):
        with pytest.raises(SchemaError, match=says):
            call("tone", wrong)
    for ask in (registry.refresh, registry.active_tokens):
        with pytest.raises(SchemaError, match=says):
            ask(wrong)
    with pytest.raises(SchemaError, match=says):
        answer_skill_call(registry, "load_skill", {"name": "tone"}, wrong)
    says = r"a Tools is needed, not a Desk; pass the state's field, state\.tools"
    with pytest.raises(SchemaError, match=says):
        update_tools(wrong, [CANCEL], profile=OPENAI)
    with pytest.raises(SchemaError, match=says):
        decide_call(wrong, ToolCall("cancel", {}, "c"))
    with pytest.raises(SchemaError, match=says):
        allowed_tools(wrong, OPENAI)


@pytest.mark.parametrize(
    ("given", "kind"),
    [([pay], "function"), ([None], "NoneType"), (CANCEL, "ToolSpec"), (None, "NoneType"), ("x", "str")],
)
def test_something_else_than_specs(given: Any, kind: str) -> None:
    says = f"tools: a list of ToolSpec is needed, and here is a {kind}; `tool_from` makes a ToolSpec"
    with pytest.raises(ToolError, match=says):
        start_tools(given)
    with pytest.raises(ToolError, match=says):
        update_tools(Tools(), given, profile=OPENAI)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (pay, "a tool is a function, and a ToolSpec is needed; `tool_from` makes one"),
        (ToolSpec(""), "a tool has no name"),
        (ToolSpec("t", None), "tool 't': description is a NoneType; pass text"),  # type: ignore[arg-type]
        (ToolSpec("t", "", None), "tool 't': parameters is a NoneType; pass a JSON schema as a dict"),  # type: ignore[arg-type]
        (ToolSpec("t", "", []), "tool 't': parameters is a list; pass a JSON schema as a dict"),  # type: ignore[arg-type]
    ],
)
def test_a_spec_that_is_none(spec: Any, says: str) -> None:
    with pytest.raises(ToolError, match=says):
        canonical_tool(spec)


@pytest.mark.parametrize("off", ["cancel", None, [CANCEL], {"cancel": True}])
def test_text_is_no_list_of_names(off: Any) -> None:
    """`"can" in "cancel"` would switch off a tool `can`."""
    with pytest.raises(ToolError, match="off: a list of tools' names is needed"):
        update_tools(start_tools([CANCEL]), [CANCEL], profile=OPENAI, off=off)


ODD = ("", "a b", "a.b", "Привет", "x" * 65, '"]\n</state>', "\ud800")


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_providers_refuse_is_left_out_later(name: str) -> None:
    bad = ToolSpec(name, "x", AMOUNT)
    with pytest.raises(ToolError, match="no name" if not name else "1 to 64 characters"):
        start_tools([CANCEL, bad])
    update = update_tools(start_tools([CANCEL]), [CANCEL, bad], profile=OPENAI)
    (notice,) = update.notices
    assert (notice.code, update.patch) == ("tool_refused", {}) and notice.path.isascii()


def test_of_two_tools_with_one_name_the_first_counts() -> None:
    now = [CANCEL, TRACK, REFUND, ToolSpec("track", "Another.", AMOUNT), ToolSpec("track", "A server's.", server="s")]
    good, notices = Tools.sendable(now)
    assert [tool.name for tool in good] == ["cancel", "track", "refund"] and good[1].description == TRACK.description
    assert [(notice.code, notice.path) for notice in notices] == [
        ("tool_refused", "track"),
        ("tool_refused", "track@s"),
    ]
    talk = Talk(CANCEL, bridge=True)
    told, codes = talk.now(*now)
    assert codes == ["tool_refused"] * 2 and "Another" not in told and "A server" not in told
    assert talk.now(*now) == ("", ["tool_refused"] * 2)


def test_a_servers_tool_gets_a_name_that_providers_take() -> None:
    search = ToolSpec("files/read", "Reads.", AMOUNT)
    named = search.of_server("my server")
    assert (named.name, named.server, named.id) == ("my_server__files_read", "my server", "files/read")
    long = [ToolSpec(f"{'x' * 70}{end}").of_server("s").name for end in ("1", "2")]
    assert [len(name) for name in long] == [64, 64] and long[0] != long[1]
    assert [tool.name for tool in qualified([search.of_server("s"), search])] == ["files/read", "s__files_read"]
    with pytest.raises(ToolError, match="a server of tools has no name"):
        search.of_server("")


def test_the_bridge_is_known_by_its_parameters() -> None:
    """In whatever words a version describes it; an application's own `call_tool` is a tool like any other."""
    own = ToolSpec("call_tool", "Rings a tool up.", AMOUNT)
    plain = start_tools([own, CANCEL])
    assert not plain.has_bridge and list(plain.specs) == ["call_tool", "cancel"]
    assert decide_call(plain, ToolCall("call_tool", {"amount": 3}, "c")).refusal is None
    assert update_tools(plain, [own, CANCEL], profile=OPENAI).patch == {}
    with pytest.raises(ToolError, match=r"two tools have the name 'call_tool'.* rename yours"):
        start_tools([own], bridge=True)
    bridged = start_tools([CANCEL], bridge=True)
    update = update_tools(bridged, [CANCEL, own], profile=OPENAI)
    assert update.patch == {} and [notice.path for notice in update.notices] == ["call_tool"]
    older = Tools(array=(ToolSpec(BRIDGE.name, "In other words.", BRIDGE.parameters), CANCEL))
    assert older.has_bridge and list(older.specs) == ["cancel"]
    assert start_tools(bridged.array, bridge=True) == bridged
    assert sorted(OURS) == sorted(tool.name for tool in (BRIDGE, LOAD_SKILL, READ_SKILL_FILE))


class Inner(TrackedState):
    name: str = "x"
    tools: Tools = Tools()


class Outer(TrackedState):
    inner: Inner = Inner()
    tools: Tools = Tools()
    skills: Skills = Skills()


def test_a_fresh_state_keeps_the_tools_that_it_leaves_empty() -> None:
    known = start_tools([CANCEL], bridge=True)
    before = Outer(inner=Inner(tools=known), tools=known, skills=SkillRegistry([TONE]).start())
    fresh = Outer(inner=Inner(name="y"), tools=start_tools([REFUND]))
    made = load_state(Outer, Tools.carried(Outer, dump_state(before), dump_state(fresh)))
    assert made == Outer(inner=Inner(name="y", tools=known), tools=start_tools([REFUND]))
    assert load_state(Outer, Tools.carried(Outer, {}, dump_state(fresh))) == fresh


def test_a_list_of_tools_and_what_is_none() -> None:
    async def later() -> list[Any]:
        return []

    assert Tools.listed("tools", (one for one in (1, 2))) == [1, 2]
    for wrong, says in (
        (None, "not a NoneType"),
        ("abc", "not a str"),
        ({}, "not a dict"),
        (later(), "not an async one"),
    ):
        with pytest.raises(ToolError, match=f"tools: a .* is needed, {says}"):
            Tools.listed("tools", wrong)
    assert "ConnectionError" in str(Tools.kept("tools", ConnectionError("secret")))
    assert "secret" not in str(Tools.kept("tools", ConnectionError("secret")))


def test_a_framework_tool_without_a_description() -> None:
    assert tool_from({"name": "t", "description": None, "parameters": {}}).description == ""

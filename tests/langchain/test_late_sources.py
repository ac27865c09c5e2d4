"""Sources of tools that cannot be read, or hold no tools: an error at the start, a notice later."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_pkv import StateMiddleware
from pkv_agents import Notice, SchemaError, ToolError
from tests.langchain.late import UNREADABLE, Source, fetched, found
from tests.langchain.providers import openai_model
from tests.langchain.skilled import (
    CONFIG,
    MODELS,
    Desk,
    Offered,
    agent_for,
    arrays,
    assert_kept,
    assert_told_is_true,
    finds,
    made,
    results,
    shown,
    state_of,
    user,
)
from tests.langchain.support import call

BRIDGED = [call("call_tool", "c1", name="track", arguments={"order_id": "K1"})]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("wrong", UNREADABLE)
def test_what_cannot_be_read_later_stays_as_it_is_known(name: str, wrong: str) -> None:
    known: Any = {"files": [made("search")]} if wrong == "server" else [made("track")]
    full = "files__search" if wrong == "server" else "track"
    asked = [call(full, "c1", order_id="K1")] if name == "anthropic-native" else []
    asked = asked or [call("call_tool", "c1", name=full, arguments={"order_id": "K1"})]
    model, provider = MODELS[name](["a", "b", asked, "c", "d", asked, "e"])
    said, source = list[Notice](), Source([])
    agent = agent_for(model, [made("cancel")], tools="tools", late_tools=source, on_notice=said.append)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    source.now = known
    agent.invoke(user("b"), CONFIG)
    source.now = UNREADABLE[wrong]
    out = agent.invoke(user("c"), CONFIG)
    assert results(out)[-1] == ("error", f"Error: {full} cannot be run here at the moment; nothing was done.")
    assert state_of(agent).tools.is_on(full) and full in state_of(agent).tools.specs
    agent.invoke(user("d"), CONFIG)
    path = "late_tools['files']" if wrong == "server" else "late_tools"
    assert found(said) == [("tools_unreadable", path)], "once, and not with each turn"
    source.now = known
    out = agent.invoke(user("e"), CONFIG)
    assert results(out)[-1][0] == "success"
    assert_kept(provider)
    assert len(set(arrays(provider))) == 1
    assert shown(provider.bodies[-1]).count(f'tools.changed[{full}].status: "on"') == 1
    assert_told_is_true(provider.bodies[-1], state_of(agent))


@pytest.mark.parametrize("wrong", UNREADABLE)
def test_what_cannot_be_read_at_the_start_is_an_error_that_says_what_to_do(wrong: str) -> None:
    model, provider = openai_model()
    agent = agent_for(model, tools="tools", late_tools=Source(UNREADABLE[wrong]))
    with pytest.raises((ToolError, OSError)) as raised:
        agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    if isinstance(raised.value, ToolError):
        assert str(raised.value).startswith("late_tools") and "is needed" in str(raised.value)
    assert provider.bodies == []


def test_an_async_function_is_refused_where_it_is_given() -> None:
    with pytest.raises(SchemaError, match="not an async one"):
        StateMiddleware(Desk, tools="tools", late_tools=fetched)  # type: ignore[arg-type]


def test_a_tool_that_a_selector_hides_is_off_though_the_late_ones_cannot_be_read() -> None:
    """What is kept are the late ones: a permission that was taken away is not given back."""
    model, provider = openai_model(script=["a", [call("refund", "c1", order_id="K1")], "b"])
    source = Source([made("track")])
    hides = Offered(None, ["cancel", "call_tool"], ["cancel", "call_tool"])
    own = [made("refund"), made("cancel")]
    agent = agent_for(model, own, before=[hides], tools="tools", late_tools=source)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    source.now = ConnectionError("down")
    out = agent.invoke(user("b"), CONFIG)
    assert results(out) == [("error", "Error: 'refund' is switched off at the moment; nothing was done.")]
    assert state_of(agent).tools.is_on("track") and not state_of(agent).tools.is_on("refund")
    assert_told_is_true(provider.bodies[-1], state_of(agent))


def without_words(order_id: str) -> str:
    return order_id


@pytest.mark.parametrize(
    "wrong",
    [None, 3, "track", object, without_words, ToolError],
    ids=["none", "number", "text", "class", "no words", "error"],
)
def test_something_that_is_no_tool_is_left_out_and_the_others_are_kept(wrong: Any) -> None:
    model, provider = openai_model(script=["a", BRIDGED, "b", "c"])
    said, source = list[Notice](), Source([])
    agent = agent_for(model, [made("cancel")], tools="tools", late_tools=source, on_notice=said.append)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    source.now = [wrong, made("track")]
    out = agent.invoke(user("b"), CONFIG)
    assert results(out) == [("success", 'track({"order_id": "K1"})')]
    agent.invoke(user("c"), CONFIG)
    assert found(said) == [("tool_refused", "late_tools[0]")]
    assert_kept(provider)
    assert_told_is_true(provider.bodies[-1], state_of(agent))
    other, _ = openai_model()
    with pytest.raises(ToolError, match=r"late_tools\[0\]: "):
        agent_for(other, tools="tools", late_tools=source).invoke(user("a", pkv_state=Desk()), CONFIG)


def test_a_fresh_state_of_the_applications_leaves_the_array_where_it_is() -> None:
    model, provider = openai_model(script=["a", "b", BRIDGED, "c", "d"])
    said, late = list[Notice](), list[Any]()
    agent = agent_for(model, [made("cancel")], tools="tools", late_tools=finds(late), on_notice=said.append)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    late.append(made("track"))
    agent.invoke(user("b", pkv_state=Desk(customer="Ada")), CONFIG)
    out = agent.invoke(user("c", pkv_state=Desk(customer="Eve")), CONFIG)
    assert results(out) == [("success", 'track({"order_id": "K1"})')]
    agent.invoke(user("d", pkv_state={"customer": "Ida", "tools": {}}), CONFIG)
    assert len(set(arrays(provider))) == 1 and said == []
    assert "track" in state_of(agent).tools.specs and state_of(agent).customer == "Ida"
    assert shown(provider.bodies[-1]).count('tools.changed[track].status: "on"') == 1
    assert_kept(provider)
    assert_told_is_true(provider.bodies[-1], state_of(agent))


def test_an_array_that_the_application_lost_is_reported_where_it_moves() -> None:
    desks = [Desk()]
    model, provider = openai_model(script=["a", "b", "c"])
    said, late = list[Notice](), list[Any]()

    def write(patch: Any, _: Any) -> None:
        from pkv_agents import apply_patch

        desks[0] = apply_patch(desks[0], patch)

    options: dict[str, Any] = {"state": lambda _: desks[0], "on_patch": write, "on_notice": said.append}  # pyright: ignore[reportUnknownLambdaType]
    agent = agent_for(model, [made("cancel")], tools="tools", late_tools=finds(late), **options)
    agent.invoke(user("a"), CONFIG)
    desks[0] = Desk()
    agent.invoke(user("b"), CONFIG)
    assert said == [] and len(set(arrays(provider))) == 1
    desks[0] = Desk()
    late.append(made("track"))
    late.append(made("track", says="again"))
    agent.invoke(user("c"), CONFIG)
    assert sorted(found(said)) == [("tool_refused", "track"), ("tools_changed", "tools")]
    assert_told_is_true(provider.bodies[-1], desks[0])


def test_500_late_tools_of_which_many_are_broken_are_noticed_once_each() -> None:
    model, provider = openai_model(script=["a", "b", "c"])
    said, late = list[Notice](), list[Any]()
    agent = agent_for(model, [made("cancel")], tools="tools", late_tools=finds(late), on_notice=said.append)
    agent.invoke(user("a", pkv_state=Desk()), CONFIG)
    late += [made(f"t{n}", {"type": "objekt"} if n % 5 == 0 else {}) for n in range(500)]
    agent.invoke(user("b"), CONFIG)
    agent.invoke(user("c"), CONFIG)
    assert len(said) == len(set(found(said)))
    assert [code for code, _ in found(said)].count("tool_refused") == 100 and ("many_tools", "") in found(said)
    assert_told_is_true(provider.bodies[-1], state_of(agent))


def test_another_process_in_which_they_cannot_be_read() -> None:
    """A server's stay as they are known; one without a server may be hidden by a selector, and is off meanwhile."""
    from langgraph.checkpoint.memory import InMemorySaver

    model, provider = openai_model(script=["a", "b", "c", "d"])
    said, saver, known = list[Notice](), InMemorySaver(), {"files": [made("search")], "": [made("track")]}
    for text, now in (("a", {}), ("b", known), ("c", ConnectionError("down")), ("d", known)):
        options: dict[str, Any] = {"late_tools": Source(now), "on_notice": said.append}
        agent = agent_for(model, [made("cancel")], saver=saver, tools="tools", **options)
        agent.invoke(user(text, **({"pkv_state": Desk()} if text == "a" else {})), CONFIG)
        assert_told_is_true(provider.bodies[-1], state_of(agent))
        assert state_of(agent).tools.is_on("files__search")
        assert state_of(agent).tools.is_on("track") == (text != "c")
    assert found(said) == [("tools_unreadable", "late_tools")] and len(set(arrays(provider))) == 1
    assert_kept(provider)

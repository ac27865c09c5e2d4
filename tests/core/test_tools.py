"""Tools: one form and one order, whatever they were declared like; what was sent does not move."""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import ToolError, ToolSpec, canonical_tool, order_tools, sorted_arguments, tool_json

ZETA, ALPHA, MU, BETA = (ToolSpec(name) for name in ("zeta", "alpha", "mu", "beta"))


def names(tools: tuple[ToolSpec, ...]) -> list[str]:
    return [tool.key for tool in tools]


def test_r17_six_orders_of_discovery_give_the_same_bytes() -> None:
    sent = {tuple(map(tool_json, order_tools((), found))) for found in itertools.permutations([ZETA, ALPHA, MU])}
    assert len(sent) == 1
    assert names(order_tools((), [ZETA, ALPHA, MU])) == ["alpha", "mu", "zeta"]


def test_r17_a_late_tool_is_appended_and_nothing_that_was_sent_moves() -> None:
    frozen = names(order_tools((), [ZETA, ALPHA, MU]))
    for found in itertools.permutations([ZETA, BETA, ALPHA, MU]):
        assert names(order_tools(frozen, found)) == ["alpha", "mu", "zeta", "beta"]
    later = names(order_tools(frozen, [BETA, ZETA, ALPHA, MU]))
    assert names(order_tools(later, [ToolSpec("aaa"), ZETA, BETA, MU, ALPHA])) == [*later, "aaa"]
    assert names(order_tools(frozen, [ZETA, ALPHA])) == ["alpha", "zeta"], "one that is gone is passed over"


@given(st.permutations("abcdef"), st.integers(0, 6), st.data())
def test_r17_whatever_comes_when_what_was_sent_is_a_prefix(found: list[str], first: int, data: st.DataObject) -> None:
    before = names(order_tools((), map(ToolSpec, found[:first])))
    now = names(order_tools(before, map(ToolSpec, data.draw(st.permutations(found)))))
    assert now[:first] == before and sorted(now) == sorted(found)


def test_r18_two_tools_of_one_name_from_two_servers() -> None:
    mine, maps, shop = ToolSpec("search"), ToolSpec("search", server="maps"), ToolSpec("search", server="shop")
    second = ToolSpec("search", server="shop", id="2")
    for found in itertools.permutations([second, shop, maps, mine]):
        assert names(order_tools((), found)) == ["search", "search@maps", "search@shop", "search@shop#2"]
    with pytest.raises(ToolError, match=r"two tools have the key 'search@shop'; give their ToolSpec"):
        order_tools((), [shop, maps, shop])


DECLARED: dict[str, Any] = {
    "type": "object",
    "$defs": {
        "Zone": {"properties": {"b": {"type": "number", "maximum": 1.0}, "a": {"$ref": "#/$defs/Unit"}}},
        "Unit": {"enum": ["f", "c"], "$defs": {"Inner": {"title": "i", "const": {"y": 1.0, "x": -0.0}}}},
    },
    "properties": {"unit": {"$ref": "#/$defs/Unit"}, "city": {"description": "Ort, z. B. Zürich ☂", "type": "string"}},
    "required": ["unit", "city"],
    "anyOf": [{"type": "object", "additionalProperties": {"type": "string", "minLength": 1}}, True],
    "items": [{"type": "string", "maxLength": 3}],
}


def test_r18_the_canonical_form_byte_for_byte() -> None:
    assert tool_json(ToolSpec("weather", "Wie wird’s?", DECLARED)) == (
        '{"name":"weather","description":"Wie wird’s?","parameters":{'
        '"$defs":{"Zone":{"properties":{"b":{"maximum":1,"type":"number"},"a":{"$ref":"#/$defs/Unit"}}},'
        '"Unit":{"$defs":{"Inner":{"const":{"y":1,"x":0},"title":"i"}},"enum":["f","c"]}},'
        '"anyOf":[{"additionalProperties":{"minLength":1,"type":"string"},"type":"object"},true],'
        '"items":[{"maxLength":3,"type":"string"}],'
        '"properties":{"unit":{"$ref":"#/$defs/Unit"},"city":{"description":"Ort, z. B. Zürich ☂","type":"string"}},'
        '"required":["unit","city"],"type":"object"}}'
    )


def test_r18_white_space_escapes_numbers_and_keywords_make_no_difference() -> None:
    other = json.loads(json.dumps(DECLARED, indent=3, ensure_ascii=True))
    other["properties"] = {
        "unit": other["properties"]["unit"],
        "city": dict(reversed(other["properties"]["city"].items())),
    }
    other["$defs"]["Zone"]["properties"]["b"]["maximum"] = 1
    backwards = dict(reversed(other.items()))
    assert tool_json(ToolSpec("t", "", backwards)) == tool_json(ToolSpec("t", "", DECLARED))


@pytest.mark.parametrize(
    ("word", "one", "two"),
    [
        ("properties", {"a": {}, "b": {}}, {"b": {}, "a": {}}),
        ("required", ["a", "b"], ["b", "a"]),
        ("enum", ["a", "b"], ["b", "a"]),
        ("default", {"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ("maximum", 1.5, 1),
        ("default", True, 1),
    ],
)
def test_r18_what_a_model_may_be_led_by_stays_as_declared(word: str, one: object, two: object) -> None:
    assert tool_json(ToolSpec("t", "", {word: one})) != tool_json(ToolSpec("t", "", {word: two}))


def test_a_field_may_be_called_like_a_keyword() -> None:
    parameters = {"properties": {"required": {"type": "string"}, "enum": {"type": "string"}, "items": {"type": "null"}}}
    assert list(canonical_tool(ToolSpec("t", "", parameters)).parameters["properties"]) == ["required", "enum", "items"]  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_the_canonical_form_is_its_own_and_the_given_one_is_not_changed() -> None:
    before = json.dumps(DECLARED)
    once = canonical_tool(ToolSpec("t", "", DECLARED))
    assert canonical_tool(once) == once and json.dumps(DECLARED) == before


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (ToolSpec(""), "a tool has no name"),
        (ToolSpec("", server="maps"), "server 'maps' has no name"),
        (ToolSpec("t", "", {"maximum": float("inf")}), r"tool 't': parameters\.maximum is a number"),
        (ToolSpec("t", "", {"properties": {"a": {"default": Decimal(1)}}}), r"properties\.a\.default is a Decimal"),
        (ToolSpec("t", "", {"enum": [1, {2}]}), r"enum\[1\] is a set"),
        (ToolSpec("t", "", {"properties": {1: {}}}), r"properties has a key that is a int"),
        (ToolSpec("t", "\ud83d"), "surrogate"),
    ],
)
def test_r18_clear_errors_that_name_the_place_and_no_value(tool: ToolSpec, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        tool_json(tool)


def test_r20_arguments_that_a_store_reordered_are_the_same_bytes() -> None:
    sent = {"unit": "c", "city": "Tokyo", "days": [{"b": 1, "a": [{"y": 1.0, "x": None}]}]}
    stored = {"days": [{"a": [{"x": None, "y": 1.0}], "b": 1}], "city": "Tokyo", "unit": "c"}
    expected = '{"city": "Tokyo", "days": [{"a": [{"x": null, "y": 1.0}], "b": 1}], "unit": "c"}'
    assert json.dumps(sorted_arguments(sent)) == json.dumps(sorted_arguments(stored)) == expected
    assert list(sent) == ["unit", "city", "days"], "what was given is not changed"


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3), json_data, max_size=5))
def test_r20_sorting_changes_the_order_and_nothing_else(arguments: dict[str, Any]) -> None:
    assert sorted_arguments(arguments) == arguments
    assert json.dumps(sorted_arguments(arguments)) == json.dumps(arguments, sort_keys=True)

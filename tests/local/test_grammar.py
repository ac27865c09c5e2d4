"""Constrained answers: always valid, forced tokens are the tokenizer's own, faults are named."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents.errors import GrammarError
from pkv_agents.local.constraint import Constraint
from pkv_agents.local.grammar import GrammarFactory
from tests.local.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
FACTORY = GrammarFactory(TOKENIZER, vocab_size=448, stop_ids=frozenset({2}))


def encode(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


def decode(ids: list[int]) -> str:
    text = TOKENIZER.decode(ids)
    assert isinstance(text, str)
    return text


def tool(name: str, parameters: object = None) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters or {}}}


def obj(required: list[str] | None = None, /, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required}


CANCEL = tool("cancel_order", obj(order_id={"type": "string"}))
MOVE = tool("change_address", obj(["order_id", "city"], order_id={"type": "string"}, city={"enum": ["Bern", "Berlin"]}))


def play(constraint: Constraint | None, *, budget: int, seed: int = 0) -> str:
    """Answers with random allowed tokens, as a model with random weights would."""
    assert constraint is not None
    random = np.random.default_rng(seed)
    taken = constraint.forced(budget)
    while not constraint.finished and len(taken) < budget:
        allowed = constraint.allowed()
        assert allowed is not None
        choice = int(random.choice(np.flatnonzero(allowed)))
        taken += constraint.accept(choice, budget - len(taken))
        taken += constraint.forced(budget - len(taken))
    assert len(taken) <= budget
    return decode(taken)


leaf = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "maxLength": 5},
        {"type": "string", "pattern": "^[A-Z][0-9]{3}$"},
        {"type": "string", "format": "date"},
        {"type": "string", "format": "color"},
        {"enum": ["a", "b c", 'q"uote', "é"]},
        {"const": 7},
        {"type": "integer"},
        {"type": "integer", "minimum": 3, "maximum": 70},
        {"type": "number"},
        {"type": "number", "minimum": 0},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "integer"}, {"type": "string"}], "description": "either"},
    ]
)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(["id", "city", "a b", "größe", "x"]), max_size=3, unique=True))
    return obj([n for n in names if draw(st.booleans())], **{name: draw(inner) for name in names})


def arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return inner.map(lambda items: {"type": "array", "items": items, "maxItems": 2})


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return objects(inner) | arrays(inner)


schemas = st.recursive(leaf, nested, max_leaves=4)
names = st.lists(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), min_size=1, max_size=4, unique=True)


@given(names=names, parameters=st.lists(objects(schemas), min_size=4, max_size=4), seed=st.integers(0, 2**32 - 1))
def test_a_random_model_always_makes_a_valid_call(names: list[str], parameters: list[Any], seed: int) -> None:
    tools = [tool(name, schema) for name, schema in zip(names, parameters, strict=False)]
    text = play(FACTORY.for_answer(tools=tools, tool_choice="any"), budget=150, seed=seed)
    call = json.loads(text)
    assert list(call) == ["name", "arguments"]
    check(call["arguments"], parameters[names.index(call["name"])])
    assert text.startswith(f'{{"name":"{call["name"]}","arguments":{{')


def check(value: Any, schema: dict[str, Any]) -> None:
    """A small validator for the schemas above."""
    if "enum" in schema:
        assert value in schema["enum"]
    if "const" in schema:
        assert value == schema["const"]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    python = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}
    python |= {"object": dict, "array": list}
    assert not kinds or any(isinstance(value, python[kind]) for kind in kinds)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        assert schema.get("minimum", value) <= value <= schema.get("maximum", value)
    if isinstance(value, dict):
        assert set(schema["required"]) <= set(value) <= set(schema["properties"])
        for name, item in value.items():
            check(item, schema["properties"][name])
    if isinstance(value, list):
        assert len(value) <= schema["maxItems"]
        for item in value:
            check(item, schema["items"])


@pytest.mark.parametrize("budget", [25, 30, 40, 80])
def test_an_endless_string_is_closed_in_time(budget: int) -> None:
    for seed in range(5):
        call = json.loads(play(FACTORY.for_answer(tools=[CANCEL], tool_choice="any"), budget=budget, seed=seed))
        assert call["name"] == "cancel_order"


def test_a_budget_below_the_shortest_call_gives_no_call_and_no_error() -> None:
    text = play(FACTORY.for_answer(tools=[CANCEL], tool_choice="any"), budget=3)
    assert '{"name":"cancel_order","arguments":{"order_id":""}}'.startswith(text)


def test_a_recursive_schema_ends() -> None:
    schema = {
        "$defs": {"Node": obj(child={"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]})},
        "$ref": "#/$defs/Node",
    }
    json.loads(play(FACTORY.for_answer(response_schema=schema), budget=60))


@pytest.mark.parametrize("arguments", [{"order_id": "K417"}, {"order_id": 'é\n"x" <|im_end|> }}'}])
def test_the_tokenizer_own_ids_are_accepted_and_forced(arguments: dict[str, str]) -> None:
    text = json.dumps({"name": "cancel_order", "arguments": arguments}, ensure_ascii=False, separators=(",", ":"))
    ids: list[int] = encode(text) if "<|" not in text else _plain(text)
    constraint = FACTORY.for_answer(tools=[CANCEL, MOVE], tool_choice="any")
    assert constraint is not None
    done = constraint.forced(500)
    assert done == ids[: len(done)]
    assert done
    while not constraint.finished:
        allowed = constraint.allowed()
        assert allowed is not None
        assert allowed[ids[len(done)]]
        done += constraint.accept(ids[len(done)], 500)
        forced = constraint.forced(500)
        assert forced == ids[len(done) : len(done) + len(forced)]
        done += forced
    assert done == ids


def _plain(text: str) -> list[int]:
    """Ids of a text in which control strings are text."""
    left, mark, right = text.partition("<|im_end|>")
    return encode(left) + [i for c in mark for i in encode(c)] + encode(right)


def test_names_are_decided_whole() -> None:
    constraint = FACTORY.for_answer(tools=[CANCEL, MOVE], tool_choice="any")
    assert constraint is not None
    constraint.forced(100)
    allowed = constraint.allowed()
    assert allowed is not None
    openings = [encode(f'{{"name":"{name}","arguments":') for name in ("cancel_order", "change_address")]
    fork = next(i for i, pair in enumerate(zip(*openings, strict=False)) if len(set(pair)) == 2)
    assert set(np.flatnonzero(allowed).tolist()) == {openings[0][fork], openings[1][fork]}


def test_auto_allows_text_or_a_call_and_nothing_that_begins_like_one() -> None:
    constraint = FACTORY.for_answer(tools=[CANCEL], tool_choice="auto")
    assert constraint is not None
    assert constraint.forced(100) == []
    allowed = constraint.allowed()
    assert allowed is not None
    begins = [i for i in np.flatnonzero(allowed).tolist() if decode([i]).startswith("{")]
    assert begins == encode('{"name":"cancel_order"')[:1]
    assert allowed[2]
    assert not allowed[[0, 1]].any()
    word = encode("You")[0]
    assert constraint.accept(word, 100) == [word]
    assert constraint.released
    assert constraint.allowed() is None


def test_choices_are_taken_whole() -> None:
    options = ["yes", "yes, sir", "no", "{x}"]
    seen = {play(FACTORY.for_answer(choices=options), budget=30, seed=seed) for seed in range(60)}
    assert seen == set(options)


def test_one_tool_only_is_forced_by_its_name() -> None:
    call = json.loads(play(FACTORY.for_answer(tools=[CANCEL, MOVE], tool_choice="change_address"), budget=100))
    assert call["name"] == "change_address"


def test_no_demand_is_no_constraint() -> None:
    assert FACTORY.for_answer() is None
    assert FACTORY.for_answer(tools=[CANCEL], tool_choice="none") is None


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        ({"response_schema": {"type": "strnig"}}, "response_schema.*strnig"),
        ({"response_schema": {"not": {}}}, "response_schema.*not"),
        ({"response_schema": 5}, "response_schema is a int"),
        ({"response_schema": {"const": {1, 2}}}, "no JSON data"),
        ({"response_schema": {"enum": []}}, "response_schema"),
        ({"tools": [tool("good"), tool("bad", {"properties": {"x": 5}})], "tool_choice": "any"}, "tool 'bad'"),
        ({"tools": [CANCEL, CANCEL]}, "two tools"),
        ({"tools": [CANCEL], "tool_choice": "refund"}, "'refund'.*cancel_order"),
        ({"tool_choice": "any"}, "no tools"),
        ({"choices": []}, "choices"),
        ({"choices": ["a", ""]}, "choices"),
        ({"choices": "ab"}, "choices"),
        ({"choices": ["a"], "response_schema": {"type": "string"}}, "exclude"),
        ({"tools": [{"name": 5}]}, "a tool is"),
    ],
)
def test_faults_are_named(request_: dict[str, Any], fault: str) -> None:
    with pytest.raises(GrammarError, match=fault):
        FACTORY.for_answer(**request_)

"""Specs from functions, models, frameworks' tools and OpenAPI documents; and skills made of tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import permutations
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from pkv_agents import (
    Skill,
    SkillError,
    ToolError,
    ToolSpec,
    skill_from_tools,
    tool_from,
    tool_json,
    tools_from_openapi,
)
from pkv_agents.skills._arguments import argument_problems, same_shape


def cancel(order_id: Annotated[str, Field(description="Its id.")], *, kind: Literal["b", "a"] = "b") -> str:
    """Cancels an order."""
    return order_id + kind


class Refund(BaseModel):
    """Pays money back."""

    amount: int = Field(le=50)
    title: str = ""


def test_a_function() -> None:
    spec = tool_from(cancel)
    assert (spec.name, spec.description) == ("cancel", "Cancels an order.")
    assert tool_json(spec) == (
        '{"name":"cancel","description":"Cancels an order.","parameters":{"additionalProperties":false,"properties":'
        '{"order_id":{"description":"Its id.","type":"string"},'
        '"kind":{"default":"b","enum":["b","a"],"type":"string"}},"required":["order_id"],"type":"object"}}'
    )
    assert tool_from(cancel, name="stop", description="Stops.").name == "stop"


def test_a_pydantic_model_and_a_property_that_is_called_title() -> None:
    spec = tool_from(Refund)
    assert (spec.name, spec.description) == ("Refund", "Pays money back.")
    assert spec.parameters["properties"] == {
        "amount": {"maximum": 50, "type": "integer"},
        "title": {"default": "", "type": "string"},
    }


@pytest.mark.parametrize(
    "record",
    [
        {"type": "function", "function": {"name": "t", "description": "d", "parameters": {"type": "object"}}},
        {"type": "function", "name": "t", "description": "d", "parameters": {"type": "object"}},
        {"name": "t", "description": "d", "input_schema": {"type": "object"}},
        ToolSpec("t", "d", {"type": "object"}),
    ],
)
def test_a_providers_record(record: object) -> None:
    assert tool_from(record) == ToolSpec("t", "d", {"type": "object"})


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (7, "a tool is a int"),
        ({"description": "x"}, "has no name"),
        ({"name": "t", "parameters": 3}, "are a int"),
        ({"name": "t", "parameters": {"type": "array"}}, "no JSON Schema of a call"),
        (divmod, "signature|positional"),
    ],
)
def test_what_is_no_tool_is_an_error(source: object, says: str) -> None:
    with pytest.raises(ToolError, match=says):
        tool_from(source)


def test_a_langchain_tool() -> None:
    tools = pytest.importorskip("langchain_core.tools")
    made = tools.tool(cancel)
    spec = tool_from(made)
    assert (spec.name, spec.description) == ("cancel", "Cancels an order.")
    assert list(spec.parameters["properties"]) == ["order_id", "kind"]  # pyright: ignore[reportArgumentType]
    assert spec.parameters["required"] == ["order_id"]


def test_a_llama_index_tool() -> None:
    tools = pytest.importorskip("llama_index.core.tools")

    def cancel(order_id: str, kind: str = "b") -> str:
        """Cancels an order."""
        return order_id + kind

    spec = tool_from(tools.FunctionTool.from_defaults(cancel))
    assert spec.name == "cancel" and "Cancels an order." in spec.description
    assert list(spec.parameters["properties"]) == ["order_id", "kind"]  # pyright: ignore[reportArgumentType]


DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "paths": {
        "/orders/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {"operationId": "get_order", "summary": "One order.", "description": "By id."},
            "delete": {"parameters": [{"$ref": "#/components/parameters/why"}]},
        },
        "/orders": {
            "post": {
                "operationId": "make_order",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}},
                },
            },
            "put": {
                "operationId": "put_orders",
                "requestBody": {
                    "content": {"application/json": {"schema": {"type": "array", "items": {"type": "string"}}}}
                },
            },
        },
    },
    "components": {
        "parameters": {
            "why": {"name": "why", "in": "query", "description": "The reason.", "schema": {"type": "string"}}
        },
        "schemas": {
            "Order": {
                "type": "object",
                "required": ["item"],
                "properties": {"item": {"type": "string"}, "next": {"$ref": "#/components/schemas/Order"}},
            }
        },
    },
}


def test_an_openapi_document() -> None:
    tools = {tool.name: tool for tool in tools_from_openapi(DOCUMENT, server="shop")}
    assert list(tools) == ["delete_orders_id", "get_order", "make_order", "put_orders"]
    assert tools["get_order"].description == "One order.\nBy id." and tools["get_order"].server == "shop"
    why = {"type": "string", "description": "The reason."}
    assert tools["delete_orders_id"].parameters["properties"] == {"id": {"type": "string"}, "why": why}
    order = {"item": {"type": "string"}, "next": {"type": "object"}}
    inner = {"type": "object", "required": ["item"], "properties": order}
    assert tools["make_order"].parameters["properties"] in ({"item": {"type": "string"}, "next": inner}, order)
    assert tools["make_order"].parameters["required"] == ["item"]
    assert tools["put_orders"].parameters["properties"] == {"body": {"items": {"type": "string"}, "type": "array"}}


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "no OpenAPI document"),
        ({"paths": {"/a": {"get": {"parameters": [{"$ref": "#/nowhere"}]}}}}, "leads nowhere"),
        ({"paths": {"/a": {"get": {"parameters": [{"$ref": "http://x/y"}]}}}}, "leads nowhere"),
        ({"paths": {"/a": {"get": {"parameters": ["x"]}}}}, "a str where a schema should be"),
        ({"paths": {"/a": {"get": {"parameters": [{"in": "path"}]}}}}, "without a name"),
        (
            {
                "paths": {"/a": {"get": {"parameters": [{"name": "a", "schema": {"$ref": "#/s/0"}}]}}},
                "s": {str(n): {"anyOf": [{"$ref": f"#/s/{n + 1}"}] * 9} for n in range(9)} | {"9": {}},
            },
            "more than 20,000 schemas",
        ),
    ],
)
def test_a_broken_openapi_document_is_an_error(document: Mapping[str, object], says: str) -> None:
    with pytest.raises(ToolError, match=says):
        tools_from_openapi(document)


def test_a_skill_of_tools_is_the_same_in_whatever_order_they_came() -> None:
    made = {
        skill_from_tools("tools", "Of the shop.", some, text="Use them.").fingerprint
        for some in permutations((cancel, Refund))
    }
    assert len(made) == 1
    skill = skill_from_tools("tools", "Of the shop.", [Refund], text="Use them.")
    assert skill.body.split("\n")[0] == "Use them." and json.loads(skill.body.split("\n")[-1][2:])["name"] == "Refund"
    assert skill.trusted and not skill_from_tools("t", "d", [ToolSpec("a", server="web")]).trusted
    with pytest.raises(SkillError):
        Skill("no name", "d", "b")


@pytest.mark.parametrize(
    ("schema", "arguments", "problems"),
    [
        ({"properties": {"a": {"enum": ["x", "y"]}}}, {"a": "z"}, ["arguments.a must be one of x, y"]),
        ({"properties": {"a": {"type": ["integer", "null"]}}}, {"a": None}, []),
        ({"properties": {"a": {"type": "integer"}}}, {"a": True}, ["arguments.a must be integer"]),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 2.0}, []),
        (
            {"properties": {"a": {"items": {"type": "string"}, "maxItems": 1}}},
            {"a": ["x", 2]},
            ["arguments.a must have at most 1", "arguments.a[1] must be string"],
        ),
        (
            {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
            {"a": 3},
            ["arguments.a fits none of the forms that are allowed"],
        ),
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": "y"}, ["arguments.a must match ^x"]),
        ({"properties": {"a": {"pattern": "("}}}, {"a": "y"}, []),
        (
            {"properties": {"a": {"exclusiveMinimum": 1, "const": 5}}},
            {"a": 1},
            ["arguments.a must be 5", "arguments.a must be more than 1"],
        ),
        ({"properties": {}, "additionalProperties": False}, {"b": 1}, ["arguments has no 'b'; it has nothing"]),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"required": ["q"]}}}, {}, ["arguments.q is missing"]),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, {"a": 1}, []),
        ({"type": "object"}, [], ["arguments must be object"]),
    ],
)
def test_arguments_are_held_to_their_schema(schema: dict[str, Any], arguments: object, problems: list[str]) -> None:
    assert list(argument_problems(schema, arguments)) == problems


def test_a_shape_is_what_is_asked_for_and_not_its_limits() -> None:
    old = {"properties": {"maximum": {"type": "integer", "maximum": 3}}, "required": ["maximum"]}
    assert same_shape(
        old, {"properties": {"maximum": {"type": "integer", "description": "x"}}, "required": ["maximum"]}
    )
    assert not same_shape(old, {"properties": {}, "required": ["maximum"]})
    assert not same_shape(old, {"properties": {"maximum": {"type": "string"}}, "required": ["maximum"]})

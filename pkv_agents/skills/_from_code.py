"""Tool specs from what an application has already: functions, pydantic models, framework tools, providers' records."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, cast, runtime_checkable

from pydantic import BaseModel, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError

from ..errors import ToolError
from ..tools import ToolSpec, checked_tool, order_tools, tool_json
from ._arguments import as_map, schema_problem
from ._skill import Skill


@runtime_checkable
class LangChainTool(Protocol):
    """What is asked of a LangChain tool."""

    name: str
    description: str

    @property
    def tool_call_schema(self) -> Any:
        """Its arguments, without those that the framework fills in: a pydantic model or a JSON schema."""
        ...


@runtime_checkable
class LlamaIndexTool(Protocol):
    """What is asked of a LlamaIndex tool."""

    @property
    def metadata(self) -> Any:
        """Its name, its description, and `get_parameters_dict()`."""
        ...


def tool_from(source: object, *, name: str = "", description: str = "") -> ToolSpec:
    """The spec of a tool, from what an application has of it.

    Args:
        source: A function (its signature and docstring), a pydantic model class (its fields), a LangChain tool, a
            LlamaIndex tool, a tool record in OpenAI's or Anthropic's form, or a ToolSpec.
        name: Another name.
        description: Another description.

    Returns:
        The spec, in canonical form.

    Raises:
        ToolError: It is none of these, or its parameters have no JSON schema.
    """
    found = _read(source)
    made = checked_tool(
        ToolSpec(name or found.name, description or found.description or "", found.parameters, found.server, found.id)
    )
    if (problem := schema_problem(made.parameters)) is not None:
        raise ToolError(f"tool {made.name!r}: its parameters are no JSON Schema of a call ({problem})")
    return made


def skill_from_tools(
    name: str, description: str, tools: Iterable[object], *, text: str = "", trusted: bool = True
) -> Skill:
    """A skill whose text documents tools: what they do, and their arguments as JSON schemas.

    Args:
        name: The skill's name.
        description: When to load it.
        tools: Whatever `tool_from` reads; they stand in the text sorted, so their order does not matter.
        text: What to say above them.
        trusted: Whether the tools' texts are the application's own word.
    """
    specs = order_tools((), (tool_from(tool) for tool in tools))
    lines = [f"- {tool_json(tool)}" for tool in specs]
    body = "\n".join([*([text, ""] if text else []), "Tools, each with its parameters:", *lines])
    return Skill(name, description, body, trusted=trusted and not any(tool.server for tool in specs))


def _read(source: object) -> ToolSpec:
    given = source  # what is left of it after all checks
    if isinstance(source, ToolSpec):
        return source
    if isinstance(source, Mapping):
        return _record(cast("Mapping[str, Any]", source))
    if isinstance(source, type) and issubclass(source, BaseModel):
        return ToolSpec(source.__name__, inspect.getdoc(source) or "", _model_schema(source))
    if isinstance(source, LangChainTool):
        schema = _model_schema(source.tool_call_schema)
        if schema.get("description") == source.description:  # LangChain writes it into a schema that is a dict
            schema = {name: value for name, value in schema.items() if name != "description"}
        return ToolSpec(source.name, source.description, schema)
    if isinstance(source, LlamaIndexTool) and hasattr(source.metadata, "get_parameters_dict"):
        metadata = source.metadata
        return ToolSpec(metadata.get_name(), metadata.description, _untitled(metadata.get_parameters_dict()))
    if inspect.isroutine(given):
        return _function(cast("Callable[..., object]", given))
    raise ToolError(
        f"a tool is a {type(given).__name__}; pass a function, a pydantic model, a framework's tool or a ToolSpec"
    )


def _record(record: Mapping[str, Any]) -> ToolSpec:
    inner: Mapping[str, Any] = record.get("function", record)
    name = inner.get("name")
    if not isinstance(name, str):
        raise ToolError("a tool record has no name; pass one in OpenAI's or Anthropic's form")
    parameters: object = inner.get("parameters", inner.get("input_schema", {}))
    schema = as_map(parameters)
    if schema is None:
        raise ToolError(f"tool {name!r}: its parameters are a {type(parameters).__name__}; pass a JSON schema")
    return ToolSpec(name, str(inner.get("description") or ""), schema)


def _function(function: Callable[..., object]) -> ToolSpec:
    name = getattr(function, "__name__", "")
    try:
        schema: dict[str, Any] = TypeAdapter[Any](cast("Any", function)).json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, NameError) as error:
        raise ToolError(
            f"tool {name!r}: its signature has no JSON schema ({type(error).__name__}); annotate its parameters"
        ) from None
    if schema.get("type") != "object":
        raise ToolError(f"tool {name!r} has positional parameters only; models pass arguments by name")
    return ToolSpec(name, inspect.getdoc(function) or "", _untitled(schema))


def _model_schema(model: Any) -> Mapping[str, object]:
    if (given := as_map(model)) is not None:
        return _untitled(given)
    try:
        schema = cast(
            "dict[str, Any]", model.model_json_schema() if hasattr(model, "model_json_schema") else model.schema()
        )
    except (PydanticUserError, AttributeError) as error:
        raise ToolError(f"{type(model).__name__} has no JSON schema ({type(error).__name__})") from None
    return {name: value for name, value in _untitled(schema).items() if name != "description"}


def _untitled(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without the titles that pydantic makes of names: they cost tokens and say nothing."""

    def tidy(part: Any, *, named: bool = False) -> Any:
        if isinstance(part, Mapping):
            items = cast("Mapping[str, Any]", part).items()
            return {
                name: tidy(value, named=name in ("properties", "$defs") and not named)
                for name, value in items
                if named or name != "title" or not isinstance(value, str)
            }
        return [tidy(item) for item in cast("list[Any]", part)] if isinstance(part, list) else part

    return cast("dict[str, Any]", tidy(schema))


__all__ = ["skill_from_tools", "tool_from"]

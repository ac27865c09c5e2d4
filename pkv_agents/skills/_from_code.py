"""Tool specs from what an application has already: functions, pydantic models, OpenAPI operations, framework tools."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, cast, runtime_checkable

from pydantic import BaseModel, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError

from ..errors import ToolError
from ..tools import ToolSpec, checked_tool, order_tools, tool_json
from ._arguments import schema_problem
from ._skill import Skill

_METHODS = ("delete", "get", "head", "options", "patch", "post", "put", "trace")
_REFERENCES = 64


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
        ToolSpec(name or found.name, description or found.description, found.parameters, found.server, found.id)
    )
    if (problem := schema_problem(made.parameters)) is not None:
        raise ToolError(f"tool {made.name!r}: its parameters are no JSON Schema of a call ({problem})")
    return made


def tools_from_openapi(document: Mapping[str, object], *, server: str = "") -> tuple[ToolSpec, ...]:
    """The operations of an OpenAPI document (3.x) as tools.

    Parameters and the fields of a JSON body are the arguments; a body that is no object is the argument `body`.
    Operations without an `operationId` are named by method and path.

    Args:
        document: The document, as data.
        server: Where the tools come from; their text then counts as written by others.

    Returns:
        The tools, sorted.

    Raises:
        ToolError: It is no such document, or a reference leads nowhere.
    """
    paths = document.get("paths")
    if not isinstance(paths, Mapping):
        raise ToolError("this is no OpenAPI document: it has no `paths`; pass the whole document as data")
    made: list[ToolSpec] = []
    for path, item in cast("Mapping[str, Mapping[str, Any]]", paths).items():
        for method in _METHODS:
            operation = item.get(method)
            if isinstance(operation, Mapping):
                shared = cast("list[Any]", item.get("parameters", []))
                made.append(_operation(document, path, method, cast("Mapping[str, Any]", operation), shared, server))
    return order_tools((), made)


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
    if isinstance(source, ToolSpec):
        return source
    if isinstance(source, Mapping):
        return _record(cast("Mapping[str, Any]", source))
    if isinstance(source, type) and issubclass(source, BaseModel):
        return ToolSpec(source.__name__, inspect.getdoc(source) or "", _model_schema(source))
    if isinstance(source, LangChainTool):
        return ToolSpec(source.name, source.description, _model_schema(source.tool_call_schema))
    if isinstance(source, LlamaIndexTool) and hasattr(source.metadata, "get_parameters_dict"):
        metadata = source.metadata
        return ToolSpec(metadata.get_name(), metadata.description, _untitled(metadata.get_parameters_dict()))
    if inspect.isroutine(source):
        return _function(cast("Callable[..., object]", source))
    raise ToolError(
        f"a tool is a {type(source).__name__}; pass a function, a pydantic model, a framework's tool or a ToolSpec"
    )


def _record(record: Mapping[str, Any]) -> ToolSpec:
    inner: Mapping[str, Any] = record.get("function", record)
    name = inner.get("name")
    if not isinstance(name, str):
        raise ToolError("a tool record has no name; pass one in OpenAI's or Anthropic's form")
    parameters = inner.get("parameters", inner.get("input_schema", {}))
    if not isinstance(parameters, Mapping):
        raise ToolError(f"tool {name!r}: its parameters are a {type(parameters).__name__}; pass a JSON schema")
    return ToolSpec(name, str(inner.get("description") or ""), cast("Mapping[str, object]", parameters))


def _function(function: Callable[..., object]) -> ToolSpec:
    name = getattr(function, "__name__", "")
    try:
        schema = TypeAdapter(function).json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, NameError) as error:
        raise ToolError(
            f"tool {name!r}: its signature has no JSON schema ({type(error).__name__}); annotate its parameters"
        ) from None
    if schema.get("type") != "object":
        raise ToolError(f"tool {name!r} has positional parameters only; models pass arguments by name")
    return ToolSpec(name, inspect.getdoc(function) or "", _untitled(schema))


def _model_schema(model: Any) -> Mapping[str, object]:
    if isinstance(model, Mapping):
        return _untitled(cast("Mapping[str, Any]", model))
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


def _operation(
    document: Mapping[str, object],
    path: str,
    method: str,
    operation: Mapping[str, Any],
    shared: list[Any],
    server: str,
) -> ToolSpec:
    name = str(operation.get("operationId") or f"{method}_{'_'.join(_words(path))}")
    properties: dict[str, object] = {}
    required: list[str] = []
    for given in (*shared, *operation.get("parameters", [])):
        parameter = _resolved(document, given, name)
        described = {"description": parameter["description"]} if "description" in parameter else {}
        properties[str(parameter["name"])] = {**_inlined(document, parameter.get("schema", {}), name), **described}
        if parameter.get("required"):
            required.append(str(parameter["name"]))
    body = _resolved(document, operation.get("requestBody", {}), name)
    content = cast("Mapping[str, Any]", body.get("content", {}))
    schema = _inlined(document, content.get("application/json", {}).get("schema", {}), name)
    if isinstance(schema.get("properties"), Mapping) and not schema["properties"].keys() & properties.keys():
        properties |= schema["properties"]
        required += schema.get("required", []) if body.get("required") else []
    elif schema:
        properties["body"] = schema
        required += ["body"] if body.get("required") else []
    parameters: dict[str, object] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = list(dict.fromkeys(required))
    says = "\n".join(str(operation[word]) for word in ("summary", "description") if operation.get(word))
    return ToolSpec(name, says, parameters, server)


def _words(path: str) -> list[str]:
    return "".join(char if char.isalnum() else " " for char in path).split()


def _resolved(document: Mapping[str, object], value: Any, where: str) -> Mapping[str, Any]:
    """What a local reference names."""
    for _ in range(_REFERENCES):
        reference = value.get("$ref") if isinstance(value, Mapping) else None
        if reference is None:
            break
        found: Any = document if str(reference).startswith("#/") else None
        for step in str(reference)[2:].split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        if found is None:
            raise ToolError(f"operation {where!r}: the reference {json.dumps(reference)} leads nowhere in the document")
        value = found
    if not isinstance(value, Mapping):
        raise ToolError(f"operation {where!r}: a {type(value).__name__} where a schema should be")
    return cast("Mapping[str, Any]", value)


def _inlined(document: Mapping[str, object], schema: Any, where: str, inside: tuple[str, ...] = ()) -> dict[str, Any]:
    """A schema with what it refers to in its place; a schema inside itself becomes any object."""
    reference = schema.get("$ref") if isinstance(schema, Mapping) else None
    if isinstance(reference, str):
        if reference in inside:
            return {"type": "object"}
        inside = (*inside, reference)

    def inline(part: Any) -> Any:
        if isinstance(part, Mapping):
            return _inlined(document, part, where, inside)
        return [inline(item) for item in cast("list[Any]", part)] if isinstance(part, list) else part

    resolved = _resolved(document, schema, where)
    return dict(_pairs(resolved, inline))


def _pairs(schema: Mapping[str, Any], inline: Callable[[Any], Any]) -> Iterator[tuple[str, Any]]:
    for name, value in schema.items():
        yield name, inline(value)


__all__ = ["skill_from_tools", "tool_from", "tools_from_openapi"]

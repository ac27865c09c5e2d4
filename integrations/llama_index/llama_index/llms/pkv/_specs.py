"""A tool spec of the core as LlamaIndex's packages read one, so that it goes out as it stands."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, field
from types import new_class
from typing import Any, cast

from llama_index.core.tools.types import ToolMetadata
from pydantic import BaseModel, ConfigDict

from pkv_agents import ToolSpec


@dataclass
class SpecMetadata(ToolMetadata):
    """A tool's metadata whose parameters are a spec's, with every keyword and in their order."""

    parameters: dict[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, spec: ToolSpec, *, return_direct: bool = False) -> SpecMetadata:
        """The metadata of a spec."""
        parameters = cast("dict[str, Any]", spec.parameters)
        return cls(spec.description, spec.name, _model(spec), return_direct, parameters)

    def get_parameters_dict(self) -> dict[str, Any]:
        """A copy: OpenAI's class writes into what it is given."""
        return deepcopy(self.parameters)

    @property
    def fn_schema_str(self) -> str:
        """The parameters as text, for agents that ask for tools in words."""
        return json.dumps(self.parameters, ensure_ascii=False)


def _model(spec: ToolSpec) -> type[BaseModel]:
    """A model for the packages that read a class (Google's); its schema is the spec's."""

    def model_json_schema(cls: object, *args: object, **options: object) -> dict[str, Any]:
        return {"title": spec.name, **deepcopy(cast("dict[str, Any]", spec.parameters))}

    inside: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": spec.description,
        "model_config": ConfigDict(extra="allow"),
        "model_json_schema": classmethod(model_json_schema),
    }
    return new_class(spec.name, (BaseModel,), exec_body=lambda namespace: namespace.update(inside))


__all__ = ["SpecMetadata"]

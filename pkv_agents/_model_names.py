"""A model's family, whatever the spelling of its name: clouds, gateways and frameworks each have their own."""

from __future__ import annotations

import re


def model_family(model: str, *, dated: bool = False) -> str:
    """The family's name in a model's name: without provider, region, date and version, dots as dashes.

    Args:
        model: A name in any spelling, for instance `us.anthropic.claude-opus-4-8-20260101-v1:0`.
        dated: Keep the date.

    Returns:
        The name, for instance `claude-opus-4-8`. Variants that cost something else (`:free`, `-pro`, `ft:`) stay.
    """
    name = model.strip().lower().rpartition("/")[2]
    name = _CLOUD.sub("", name)
    name = _BEDROCK_VERSION.sub("", name).removesuffix("[1m]").replace("@", "-").removesuffix("-default")
    name = re.sub(r"(?<=\d)\.(?=\d)", "-", name)
    return name if dated else _DATED.sub("", name)


OWN_SERVERS = frozenset(
    ("vllm", "sglang", "llama.cpp", "llamacpp", "ollama", "local", "huggingface", "lmstudio", "tgi", "tensorrt-llm")
)
MAKERS = frozenset(("", "anthropic", "google", "openai"))
"""Rows of these stand for the model wherever it is served; rows of others (a cloud, a gateway) only for that one."""

_CLOUD = re.compile(
    r"^(?:(?:openai|azure|azure_openai|azure_ai|anthropic|anthropic_bedrock|bedrock|bedrock_converse|google_genai"
    r"|google_vertexai|google_anthropic_vertex|openrouter|litellm):)?(?:(?:[a-z]+\.)?(?:anthropic|openai)\.)?"
)
_BEDROCK_VERSION = re.compile(r"-v\d+(?::\d+(?::\d+k)?)?$")
_DATED = re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d|latest|\d{3}|preview(?:-\d\d-20\d\d|-\d\d-\d\d)?)$")

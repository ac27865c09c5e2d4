"""Whether the engine may cache a model's keys and values: asked of its configuration and of one trial token.

Two questions. `refusal`: may a prefix be kept and continued (slabs)? Decoder-only models whose every layer is full
attention with rotary positions that do not depend on the sequence's length. `segment_refusal`: may it also be cut,
moved and joined (segments)? Any family of `families.py`, also with sliding windows, with latents, or with layers that
have no position. Everything else is refused with the reason, because a cache that is subtly wrong is worse than none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pkv_agents.errors import UnsupportedModelError
from pkv_agents.kv.families import Family, rope_refusal

_WHOLE_KINDS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
"""Kinds of layers that keep a key for every token, if they are let."""


def refusal(config: object, cache_layers: frozenset[str]) -> str | None:
    """Says why a model with this configuration is not supported; None if it is.

    Args:
        config: The text model's configuration object.
        cache_layers: Names of the layer classes that transformers itself would use to cache this model.
    """
    for check in (_shape_refusal, _rope_refusal):
        if reason := check(config):
            return reason
    if strange := sorted(cache_layers - {"DynamicLayer"}):
        return f"its cache has layers other than full attention ({', '.join(strange)})"
    return None


def segment_refusal(config: object, family: Family, cache_layers: frozenset[str]) -> str | None:
    """Says why segments of a model with this configuration cannot be cut, moved and joined; None if they can.

    Args:
        config: The text model's configuration object.
        family: Its row.
        cache_layers: Names of the layer classes that transformers itself would use to cache this model.
    """
    if family.refusal:
        return family.refusal
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "use_bidirectional_attention", False):
        return "its tokens also attend to later ones; only causal models are supported"
    kinds = cast("list[str]", getattr(config, "layer_types", None) or [])
    if other := sorted(set(kinds) - _WHOLE_KINDS):
        return f"it has layers of the kind {', '.join(other)}"
    if strange := sorted(cache_layers - {"DynamicLayer", "DynamicSlidingWindowLayer"}):
        return f"its cache has layers of the kind {', '.join(strange)}"
    if getattr(config, "num_kv_shared_layers", 0):
        return "its layers share keys and values"
    if getattr(config, "alibi", False):
        return "it uses ALiBi; only rotary positions are supported"
    if (attention := getattr(config, "_attn_implementation", None)) not in {"eager", "sdpa"}:
        return f"its attention is {attention}; load it with attn_implementation='sdpa'"
    return None if family.table == "sincos" else _kinds_refusal(config)


def input_refusal(config: object, family: Family) -> str | None:
    """Says why a model that takes more than text is not supported; None if it takes text, or its family is known.

    Args:
        config: The whole model's configuration object, not its text part.
        family: The text model's row.
    """
    if family.multimodal:
        return None
    return _other_input(config)


def _other_input(config: object) -> str | None:
    if getattr(config, "vision_config", None) is not None or getattr(config, "audio_config", None) is not None:
        return "it takes images or audio; only text models are supported"
    return None


def _kinds_refusal(config: object) -> str | None:
    rope = getattr(config, "rope_parameters", None)
    if not isinstance(rope, Mapping) or not rope:
        return "it has no rotary positions"
    parameters = cast("Mapping[str, object]", rope)
    nested = [cast("Mapping[str, object]", value) for value in parameters.values() if isinstance(value, Mapping)]
    for one in nested or [parameters]:
        if reason := _kind_refusal(str(one.get("rope_type", "default"))):
            return reason
    return None


def require(condition: bool, reason: str) -> None:
    """Raises UnsupportedModelError with the reason unless the condition holds."""
    if not condition:
        raise refused(reason)


def refused(reason: str) -> UnsupportedModelError:
    """The error that says why a model cannot be used."""
    return UnsupportedModelError(f"this model cannot use the local engine: {reason}")


def _shape_refusal(config: object) -> str | None:
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder-decoder; only decoder-only models are supported"
    if reason := _other_input(config):
        return reason
    kinds = cast("list[str]", getattr(config, "layer_types", None) or [])
    if other := sorted(set(kinds) - {"full_attention"}):
        return f"it has layers of the kind {', '.join(other)}; only full attention is supported"
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True) and not kinds:
        return "it uses sliding-window attention; only full attention is supported"
    if getattr(config, "kv_lora_rank", None):
        return "it caches compressed latents (multi-head latent attention)"
    if getattr(config, "num_kv_shared_layers", 0):
        return "its layers share keys and values"
    return None


def _rope_refusal(config: object) -> str | None:
    if getattr(config, "alibi", False):
        return "it uses ALiBi; only rotary positions are supported"
    rope = getattr(config, "rope_parameters", None)
    if not isinstance(rope, Mapping) or not rope:
        return "it has no rotary positions"
    parameters = cast("Mapping[str, object]", rope)
    if any(isinstance(value, Mapping) for value in parameters.values()):
        return "its rotary parameters differ by layer"
    if "mrope_section" in parameters:
        return "its rotary positions have several axes"
    return _kind_refusal(str(parameters.get("rope_type", "default")))


def _kind_refusal(kind: str) -> str | None:
    reason = rope_refusal(kind)
    # A kind that is known is named with its reason; of one that is not, the reason names it.
    return f"with rope_type {kind!r} {reason}" if reason and repr(kind) not in reason else reason or None

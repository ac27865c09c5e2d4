"""A loaded model as the engine sees it: one guarded call, its adapter, and what its forward is called.

The model comes from the caller and is as it was after each call.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator, Mapping
from typing import Protocol, cast

import torch

from pkv_agents.errors import AdapterError, UnsupportedModelError
from pkv_agents.kv._grouped import grouped_attention


class Output(Protocol):
    """What a forward returns."""

    logits: torch.Tensor


class CachedLayer(Protocol):
    """One layer of a cache."""

    keys: torch.Tensor | None
    values: torch.Tensor | None


class Config(Protocol):
    """The parts of a configuration that every text model has."""

    model_type: str
    max_position_embeddings: int
    vocab_size: int

    def get_text_config(self, decoder: bool = False) -> Config: ...
    def to_dict(self) -> dict[str, object]: ...


class Model(Protocol):
    """The parts of a causal language model that the engine calls."""

    config: Config
    training: bool

    def __call__(self, **arguments: object) -> Output: ...
    def named_parameters(self) -> Iterator[tuple[str, torch.Tensor]]: ...
    def named_modules(self) -> Iterator[tuple[str, object]]: ...


class _Adapter(Protocol):
    active_adapters: list[str]
    disable_adapters: bool
    merged_adapters: list[str]


class LoadedModel:
    """A causal language model with its active adapter, called under a lock.

    Args:
        model: A transformers model, or a peft model round one, in evaluation mode.
        adapter: Name of the adapter that must be active at each call; None takes the one active now.

    Attributes:
        model: The model without the peft wrapper.
        config: The text model's configuration.
        adapter: Name of the active adapter, empty if none.
        lock: Held during a call.
    """

    def __init__(self, model: object, adapter: str | None) -> None:
        self.model = _unwrap(model)
        self._cache_argument = _cache_argument(self.model)
        compatible = getattr(self.model, "is_backend_compatible", None)
        self._looks_attention_up = callable(compatible) and bool(compatible())
        self._tuner = _first_adapter_layer(self.model)
        self.config = self.model.config.get_text_config(decoder=True)
        self.adapter = _active_adapter(self._tuner)
        self.lock = threading.Lock()
        if adapter is not None and adapter != self.adapter:
            raise AdapterError(
                f"adapter {adapter!r} is not active in this model (active: {self.adapter or 'none'}): activate it first"
            )

    def call(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        cache: object,
        *,
        keep: int = 1,
        mask: object = None,
        more: Mapping[str, object] | None = None,
    ) -> torch.Tensor:
        """One forward. The lock is the caller's to hold.

        Args:
            ids: Token ids, (tokens,).
            positions: Where they stand, (tokens,), or (axes, 1, tokens) where a token has several.
            cache: A transformers cache; the forward writes into it.
            keep: How many of the last positions need logits.
            mask: An attention mask that replaces the causal one, or a dict of them by kind of layer.
            more: Further arguments of the forward: images.

        Returns:
            Logits, (keep, vocab).
        """
        self.check_adapter()
        arguments: dict[str, object] = {
            "input_ids": ids.unsqueeze(0),
            # Always explicit: `cache_position`, the old way to say it, is swallowed silently.
            "position_ids": positions if positions.dim() == 3 else positions.unsqueeze(0),
            "use_cache": True,
            "logits_to_keep": keep,
            self._cache_argument: cache,
            **(more or {}),
        }
        if mask is not None:
            arguments["attention_mask"] = mask
        if not self._looks_attention_up:  # its attention is its own, and asks for names that it knows
            return self.model(**arguments).logits[0]
        with grouped_attention(self.config, ids.device):
            return self.model(**arguments).logits[0]

    def check_adapter(self) -> None:
        """Raises AdapterError if another adapter is active than the one that this engine was made for."""
        active = _active_adapter(self._tuner)
        if active != self.adapter:
            raise AdapterError(
                f"the model's active adapter is {active or 'none'}, but this engine was made for "
                f"{self.adapter or 'none'}: make one engine for each adapter"
            )


def model_type_of(model: object) -> str:
    """What the configuration of a model's text part calls itself; empty if it is no transformers model."""
    config = getattr(_unwrap(model), "config", None)
    text_part = getattr(config, "get_text_config", None)
    return str(getattr(text_part(decoder=True) if callable(text_part) else config, "model_type", ""))


def _unwrap(model: object) -> Model:
    peft_config = getattr(model, "active_peft_config", None)
    if getattr(peft_config, "is_prompt_learning", False):
        raise UnsupportedModelError("prompt-learning adapters put virtual tokens into the cache; use LoRA")
    inner = getattr(model, "get_base_model", None)
    return cast("Model", inner() if callable(inner) else model)


def _cache_argument(model: Model) -> str:
    forward = getattr(model, "forward", None)
    names: set[str] = set(inspect.signature(forward).parameters) if callable(forward) else set()
    for name in ("cache", "past_key_values"):  # renamed during 5.x
        if name in names and {"position_ids", "logits_to_keep"} <= names:
            return name
    raise UnsupportedModelError(
        f"{type(model).__name__} is no causal language model that takes a cache, position_ids and logits_to_keep"
    )


def _first_adapter_layer(model: Model) -> _Adapter | None:
    for _, module in model.named_modules():
        if hasattr(module, "disable_adapters") and hasattr(module, "merged_adapters"):
            return cast("_Adapter", module)
    return None


def _active_adapter(layer: _Adapter | None) -> str:
    if layer is None or layer.disable_adapters:
        return ""
    merged = [f"{name} (merged)" for name in layer.merged_adapters]
    return "+".join(merged or layer.active_adapters)

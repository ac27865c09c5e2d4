"""The one place that imports transformers.

What depends on its version is here and in `_loaded.py`: the closed version range, and two cache layers, one that writes
into a slab and one that writes at any places of a sequence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, cast

try:
    import torch
    import transformers
    from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
except ModuleNotFoundError as missing:  # pragma: no cover - depends on the installation
    if missing.name not in {"torch", "transformers"}:
        raise
    raise ModuleNotFoundError(
        f"{missing.name} is needed for local models: pip install 'pkv-agents[local]'", name=missing.name
    ) from missing

from pkv_agents.errors import UnsupportedModelError
from pkv_agents.kv import capability
from pkv_agents.kv._device import on_device
from pkv_agents.kv._facts import ModelFacts, device_of, fingerprint_of, stop_ids_of
from pkv_agents.kv._loaded import CachedLayer, LoadedModel
from pkv_agents.kv.slab import Slab, SlabShape

_OLDEST, _NEWEST = (5, 24), (5, 40)
"""Half-open range of transformers versions that the tests have seen or whose deprecations are known."""


class _SlabLayer(DynamicLayer):
    """A cache layer whose keys and values are views into a slab."""

    def __init__(self, slab: Slab, index: int) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] -- untyped **kwargs upstream
        self._slab = slab
        self._index = index
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.keys, self.values = self._slab.write(self._index, key_states, value_states)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self._slab.length

    def crop(self, tokens_to_remove: int) -> None:
        raise NotImplementedError("cut the slab, not one of its layers")


class _SequenceLayer(DynamicLayer):
    """A cache layer over the keys and values of a whole sequence; a forward writes at `slots`, in any order.

    It keeps everything, also in a model with a sliding window: there the mask does the forgetting.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] -- untyped **kwargs upstream
        self.keys, self.values = keys, values
        self._slots = slots
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        assert self.keys is not None and self.values is not None
        self.keys.index_copy_(2, self._slots, key_states)
        self.values.index_copy_(2, self._slots, value_states)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        assert self.keys is not None
        return self.keys.shape[-2] - len(self._slots)


class HFModel:
    """A loaded causal language model, seen as one operation: forward new tokens behind a slab's content.

    Args:
        model: A transformers model, or a peft model round one, in evaluation mode.
        adapter: Name of the adapter that must be active at each forward; None takes the one active now.
    """

    def __init__(self, model: object, *, adapter: str | None = None) -> None:
        require_supported_version()
        self._loaded = LoadedModel(model, adapter)
        self.facts = _learn(self._loaded)

    def forward(self, slab: Slab, ids: Sequence[int]) -> torch.Tensor:
        """Forwards `ids` behind the slab's content, commits them, and returns the last position's logits.

        The slab must have room (`Slab.reserve`) and be held by the caller.

        Returns:
            Logits of shape (vocab,).
        """
        device, start, count = self.facts.shape.device, slab.length, len(ids)
        with torch.inference_mode(), self._loaded.lock:
            logits = self._loaded.call(
                on_device(ids, device),
                torch.arange(start, start + count, device=device),
                _cache_over(slab),
            )[-1]
            slab.commit(ids)
        return logits


def load_folder(folder: str | os.PathLike[str], *, threads: int | None = None) -> tuple[object, object]:
    """A causal language model and its tokenizer from a folder, in float32, in evaluation mode; for commands.

    Args:
        folder: A Hugging Face model; nothing is fetched.
        threads: torch threads of this process; None leaves torch's own choice.

    Raises:
        UnsupportedModelError: There is none that transformers can load.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    loaders = cast("Any", transformers)  # its loaders have no types
    try:
        model = loaders.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
        tokenizer = loaders.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        first = str(error).partition("\n")[0]
        raise UnsupportedModelError(f"no model can be loaded from {folder}: {first}") from error
    return model.eval(), tokenizer


def require_supported_version() -> None:
    """Raises UnsupportedModelError if the installed transformers is outside the closed range."""
    found = re.match(r"(\d+)\.(\d+)", transformers.__version__)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if not _OLDEST <= version < _NEWEST:
        raise UnsupportedModelError(
            f"transformers {transformers.__version__} is not supported: install one of {_OLDEST[0]}.{_OLDEST[1]} "
            f"<= version < {_NEWEST[0]}.{_NEWEST[1]}"
        )


def refusal_of_cache(loaded: LoadedModel) -> str | None:
    """Says why this model's cache is not one of plain keys and values; None if it is."""
    if getattr(loaded.model, "_is_stateful", False):
        return "it keeps a recurrent state"
    generation = getattr(loaded.model, "generation_config", None)
    if (kind := getattr(generation, "cache_implementation", None)) not in {None, "dynamic"}:
        return f"its generation configuration asks for a {kind} cache"
    return None


def cache_layers(loaded: LoadedModel) -> frozenset[str]:
    """Names of the layer classes that transformers itself would use to cache this model."""
    layers = cast("list[object]", DynamicCache(config=loaded.config).layers)  # pyright: ignore[reportArgumentType]
    return frozenset(type(layer).__name__ for layer in layers)


def empty_cache() -> Cache:
    """A cache that keeps every key and value of every layer."""
    return DynamicCache()


def sequence_cache(layers: Sequence[tuple[torch.Tensor, torch.Tensor]], slots: torch.Tensor) -> Cache:
    """A cache over each layer's keys and values of a whole sequence, (1, heads, tokens, dim), written in place.

    Args:
        layers: Keys and values.
        slots: Where a forward's tokens go, (new tokens,).
    """
    return Cache(layers=[_SequenceLayer(keys, values, slots) for keys, values in layers])


def layers_of(cache: object) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Each layer's keys and values.

    Raises:
        UnsupportedModelError: If a layer holds something else: latents of a recurrence, quantised or windowed keys.
    """
    found: list[tuple[torch.Tensor, torch.Tensor]] = []
    if not isinstance(cache, Cache):
        raise capability.refused(f"{type(cache).__name__} is not a cache of transformers")
    for index, layer in enumerate(cache.layers):
        kind = type(layer)
        if kind not in {DynamicLayer, _SequenceLayer}:
            raise capability.refused(
                f"layer {index} of its cache is a {kind.__name__}, which does not keep all keys and values"
            )
        keys, values = cast("CachedLayer", layer).keys, cast("CachedLayer", layer).values
        if keys is None or values is None or keys.dim() != 4:
            raise capability.refused(f"layer {index} caches something other than keys and values")
        found.append((keys, values))
    return found


def _cache_over(slab: Slab) -> Cache:
    return Cache(layers=[_SlabLayer(slab, index) for index in range(slab.shape.layers)])


def _learn(loaded: LoadedModel) -> ModelFacts:
    config = loaded.config
    reason = capability.refusal(config, frozenset()) or refusal_of_cache(loaded)
    if reason is None:
        reason = capability.refusal(config, cache_layers(loaded))
    capability.require(reason is None, str(reason))
    device = device_of(loaded.model)
    return ModelFacts(
        shape=_trial(loaded, device),
        fingerprint=fingerprint_of(loaded.model, config),
        context_limit=config.max_position_embeddings,
        vocab_size=config.vocab_size,
        stop_ids=stop_ids_of(getattr(loaded.model, "generation_config", None)),
        adapter=loaded.adapter,
    )


def _trial(loaded: LoadedModel, device: torch.device) -> SlabShape:
    """Forwards one token with a plain cache and reads what was cached."""
    cache, zero = empty_cache(), torch.zeros(1, dtype=torch.long, device=device)
    with torch.inference_mode(), loaded.lock:
        loaded.call(zero, zero, cache)
    layers = layers_of(cache)
    shapes = {(keys.shape[1], keys.shape[3], values.shape[3], keys.dtype) for keys, values in layers}
    capability.require(len(shapes) == 1, f"its layers cache {len(shapes)} different shapes")
    heads, key_dim, value_dim, dtype = shapes.pop()
    return SlabShape(len(layers), heads, key_dim, value_dim, dtype, device)

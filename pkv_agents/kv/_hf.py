"""The one place that imports transformers.

Everything version-dependent is here: the closed version range, the name of the cache argument (`past_key_values` is
becoming `cache`), explicit `position_ids` (`cache_position` would be swallowed silently), `logits_to_keep`, and a cache
layer that writes into a slab. The model comes loaded from the caller; it is never changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import re
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

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

from pkv_agents.errors import AdapterError, UnsupportedModelError
from pkv_agents.kv import capability
from pkv_agents.kv.slab import Slab, SlabShape

_OLDEST, _NEWEST = (5, 24), (5, 40)
"""Half-open range of transformers versions that the tests have seen or whose deprecations are known."""

_FORCE_GQA = "TRANSFORMERS_SDPA_FORCE_GQA"


class _Output(Protocol):
    logits: torch.Tensor


class _Layer(Protocol):
    keys: torch.Tensor | None
    values: torch.Tensor | None


class _Adapter(Protocol):
    active_adapters: list[str]
    disable_adapters: bool
    merged_adapters: list[str]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the engine needs to know about a model, learnt from it.

    Attributes:
        shape: Cost of one cached token.
        fingerprint: Of configuration and weights (a sample of each tensor).
        context_limit: Most tokens of a sequence.
        vocab_size: Width of the logits.
        stop_ids: End-of-sequence ids named by the generation configuration.
        adapter: Name of the active adapter, empty if none.
    """

    shape: SlabShape
    fingerprint: str
    context_limit: int
    vocab_size: int
    stop_ids: frozenset[int]
    adapter: str


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


class HFModel:
    """A loaded causal language model, seen as one operation: forward new tokens behind a slab's content.

    Args:
        model: A transformers model, or a peft model round one, in evaluation mode.
        adapter: Name of the adapter that must be active at each forward; None takes the one active now.
    """

    def __init__(self, model: object, *, adapter: str | None = None) -> None:
        require_supported_version()
        self._model = _unwrap(model)
        self._cache_argument = _cache_argument(self._model)
        self._lock = threading.Lock()
        self._tuner = _first_adapter_layer(self._model)
        active = _active_adapter(self._tuner)
        if adapter is not None and adapter != active:
            raise AdapterError(f"adapter {adapter!r} is not active in this model (active: {active or 'none'})")
        self.facts = _learn(self._model, active)
        self._force_gqa = self.facts.shape.device.type == "cpu"

    def forward(self, slab: Slab, ids: Sequence[int]) -> torch.Tensor:
        """Forwards `ids` behind the slab's content, commits them, and returns the last position's logits.

        The slab must have room (`Slab.reserve`) and be held by the caller.

        Returns:
            Logits of shape (vocab,).
        """
        device, start, count = self.facts.shape.device, slab.length, len(ids)
        with torch.inference_mode(), self._lock, self._gqa(start, count):
            self._check_adapter()
            arguments: dict[str, object] = {
                "input_ids": torch.tensor([ids], dtype=torch.long, device=device),
                "position_ids": torch.arange(start, start + count, device=device).unsqueeze(0),
                "use_cache": True,
                "logits_to_keep": 1,
                self._cache_argument: _cache_over(slab),
            }
            logits = self._model(**arguments).logits[0, -1]
            slab.commit(ids)
        return logits

    def _check_adapter(self) -> None:
        active = _active_adapter(self._tuner)
        if active != self.facts.adapter:
            raise AdapterError(
                f"the model's active adapter is {active or 'none'}, but this engine was made for "
                f"{self.facts.adapter or 'none'}: make one LocalModel for each adapter"
            )

    @contextlib.contextmanager
    def _gqa(self, start: int, count: int) -> Generator[None]:
        """Several queries on a cached prefix: grouped attention instead of a repeated copy of all keys and values.

        Measured on CPU only (a 60-token turn on a 4k cache: 305 to 248 ms), so it is set for such forwards only.
        """
        if not (self._force_gqa and start and count > 1) or _FORCE_GQA in os.environ:
            yield
            return
        os.environ[_FORCE_GQA] = "1"
        try:
            yield
        finally:
            os.environ.pop(_FORCE_GQA, None)


class _Config(Protocol):
    max_position_embeddings: int
    vocab_size: int

    def get_text_config(self, decoder: bool = False) -> _Config: ...
    def to_dict(self) -> dict[str, object]: ...


class _Model(Protocol):
    config: _Config
    training: bool

    def __call__(self, **arguments: object) -> _Output: ...
    def named_parameters(self) -> Iterator[tuple[str, torch.Tensor]]: ...
    def named_modules(self) -> Iterator[tuple[str, object]]: ...


def require_supported_version() -> None:
    """Raises UnsupportedModelError if the installed transformers is outside the closed range."""
    found = re.match(r"(\d+)\.(\d+)", transformers.__version__)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if not _OLDEST <= version < _NEWEST:
        raise UnsupportedModelError(
            f"transformers {transformers.__version__} is not supported: install one of {_OLDEST[0]}.{_OLDEST[1]} "
            f"<= version < {_NEWEST[0]}.{_NEWEST[1]}"
        )


def _cache_over(slab: Slab) -> Cache:
    return Cache(layers=[_SlabLayer(slab, index) for index in range(slab.shape.layers)])


def _unwrap(model: object) -> _Model:
    peft_config = getattr(model, "active_peft_config", None)
    if getattr(peft_config, "is_prompt_learning", False):
        raise UnsupportedModelError("prompt-learning adapters put virtual tokens into the cache; use LoRA")
    inner = getattr(model, "get_base_model", None)
    return cast("_Model", inner() if callable(inner) else model)


def _cache_argument(model: _Model) -> str:
    forward = getattr(model, "forward", None)
    names: set[str] = set(inspect.signature(forward).parameters) if callable(forward) else set()
    for name in ("cache", "past_key_values"):
        if name in names and {"position_ids", "logits_to_keep"} <= names:
            return name
    raise UnsupportedModelError(
        f"{type(model).__name__} is no causal language model that takes a cache, position_ids and logits_to_keep"
    )


def _learn(model: _Model, adapter: str) -> ModelFacts:
    config = model.config.get_text_config(decoder=True)
    reason = capability.refusal(config, frozenset())
    if reason is None and getattr(model, "_is_stateful", False):
        reason = "it keeps a recurrent state"
    generation = getattr(model, "generation_config", None)
    if reason is None and getattr(generation, "cache_implementation", None) not in {None, "dynamic"}:
        reason = f"its generation configuration asks for a {getattr(generation, 'cache_implementation', '')} cache"
    if reason is None:
        layers = cast("list[object]", DynamicCache(config=config).layers)  # pyright: ignore[reportArgumentType]
        reason = capability.refusal(config, frozenset(type(layer).__name__ for layer in layers))
    capability.require(reason is None, str(reason))
    capability.require(not model.training, "it is in training mode; call model.eval() first")
    devices = {parameter.device for _, parameter in model.named_parameters()}
    capability.require(len(devices) == 1, f"its weights are spread over {len(devices)} devices")
    device = devices.pop()
    capability.require(device.type != "meta", "its weights are not loaded (meta device)")
    return ModelFacts(
        shape=_trial(model, device),
        fingerprint=_fingerprint(model, config),
        context_limit=config.max_position_embeddings,
        vocab_size=config.vocab_size,
        stop_ids=_stop_ids(generation),
        adapter=adapter,
    )


def _trial(model: _Model, device: torch.device) -> SlabShape:
    """Forwards one token with a plain cache and reads what was cached."""
    cache = DynamicCache()
    with torch.inference_mode():
        model(
            input_ids=torch.zeros((1, 1), dtype=torch.long, device=device),
            position_ids=torch.zeros((1, 1), dtype=torch.long, device=device),
            use_cache=True,
            **{_cache_argument(model): cache},
        )
    layers = cast("Sequence[_Layer]", cache.layers)
    shapes: set[tuple[int, int, int, torch.dtype]] = set()
    for layer in layers:
        if layer.keys is None or layer.values is None or layer.keys.dim() != 4:
            capability.require(False, "a layer caches something other than keys and values")
            continue
        shapes.add((layer.keys.shape[1], layer.keys.shape[3], layer.values.shape[3], layer.keys.dtype))
    capability.require(len(shapes) == 1, f"its layers cache {len(shapes)} different shapes")
    heads, key_dim, value_dim, dtype = shapes.pop()
    return SlabShape(len(layers), heads, key_dim, value_dim, dtype, device)


def _fingerprint(model: _Model, config: _Config) -> str:
    """Hashes the configuration and 64 evenly spread values of each weight tensor (also the adapter's)."""
    settings = {
        name: value
        for name, value in config.to_dict().items()
        if name not in {"_name_or_path", "transformers_version", "use_cache"}
    }
    digest = hashlib.sha256(repr(sorted(settings.items())).encode())
    samples: list[torch.Tensor] = []
    for name, parameter in sorted(model.named_parameters(), key=lambda item: item[0]):
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}\n".encode())
        flat = parameter.detach().reshape(-1)
        samples.append(flat[:: max(1, flat.numel() // 64)][:64].to(torch.float32))
    digest.update(torch.cat(samples).cpu().numpy().tobytes())
    return digest.hexdigest()[:32]


def _stop_ids(generation: object) -> frozenset[int]:
    ids = cast("int | Sequence[int] | None", getattr(generation, "eos_token_id", None))
    if ids is None:
        return frozenset()
    return frozenset({ids} if isinstance(ids, int) else ids)


def _first_adapter_layer(model: _Model) -> _Adapter | None:
    for _, module in model.named_modules():
        if hasattr(module, "disable_adapters") and hasattr(module, "merged_adapters"):
            return cast("_Adapter", module)
    return None


def _active_adapter(layer: _Adapter | None) -> str:
    if layer is None or layer.disable_adapters:
        return ""
    merged = [f"{name} (merged)" for name in layer.merged_adapters]
    return "+".join(merged or layer.active_adapters)

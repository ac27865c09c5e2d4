"""What the engine learns about a loaded model: identity, sizes, limits."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch

from pkv_agents.kv import capability
from pkv_agents.kv._loaded import Config, Model
from pkv_agents.kv.slab import SlabShape


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

    @property
    def identity(self) -> str:
        """Fingerprint and adapter: what keys and values depend on beside the tokens."""
        return identity_of(self.fingerprint, self.adapter)


def identity_of(fingerprint: str, adapter: str) -> str:
    """Fingerprint and adapter as one text."""
    return f"{fingerprint}+{adapter}" if adapter else fingerprint


def fingerprint_of(model: Model, config: Config) -> str:
    """Hashes configuration, revision, and 64 evenly spread values of each weight tensor (also the adapter's)."""
    settings = {
        name: value
        for name, value in config.to_dict().items()
        if name not in {"_name_or_path", "transformers_version", "use_cache"}
    }
    digest = hashlib.sha256(repr(sorted(settings.items())).encode())
    if revision := getattr(model.config, "_commit_hash", None):  # a folder has none
        digest.update(str(revision).encode())
    samples: list[torch.Tensor] = []
    for name, parameter in sorted(model.named_parameters(), key=lambda item: item[0]):
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}\n".encode())
        flat = parameter.detach().reshape(-1)
        samples.append(flat[:: max(1, flat.numel() // 64)][:64].to(torch.float32))
    digest.update(torch.cat(samples).cpu().numpy().tobytes())
    return digest.hexdigest()[:32]


def stop_ids_of(generation: object) -> frozenset[int]:
    """End-of-sequence ids of a generation configuration."""
    ids = cast("int | Sequence[int] | None", getattr(generation, "eos_token_id", None))
    if ids is None:
        return frozenset()
    return frozenset({ids} if isinstance(ids, int) else ids)


def device_of(model: Model) -> torch.device:
    """The one device of a model that is ready to run.

    Raises:
        UnsupportedModelError: If it is in training mode, spread over devices, or not loaded.
    """
    capability.require(not model.training, "it is in training mode; call model.eval() first")
    devices = {parameter.device for _, parameter in model.named_parameters()}
    capability.require(len(devices) == 1, f"its weights are spread over {len(devices)} devices")
    device = devices.pop()
    capability.require(device.type != "meta", "its weights are not loaded (meta device)")
    return device

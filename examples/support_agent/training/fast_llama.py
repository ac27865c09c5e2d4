"""A small, fast Llama forward for LoRA training on CPU cores.

Compared with transformers + peft it spends less time between the matmuls: it fuses the projections, keeps everything in
bfloat16, runs the frozen lower layers without a graph and can put a long head (everything before the first decision)
through without a graph too. What it trains is an ordinary peft adapter: `adapter_tensors` writes peft's names, and a
test holds that peft's forward with that adapter gives the same logits.
"""

# torch's stubs leave many members partly typed; every value here is annotated where it is made.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from .fused_ops import CausalAttention, LoraLinear, RmsNorm, Rotate, SwiGlu

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Every linear layer of a block carries an adapter."""


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """Rank, scale and first adapted layer of the adapter."""

    rank: int = 16
    alpha: int = 32
    first_layer: int = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a Llama model that this forward needs."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    theta: float


class _Fused(nn.Module):
    """One matmul for projections that share their input, each with its own low-rank update.

    The down matrices are concatenated and the up matrices stand on a block diagonal, so the update costs two matmuls.
    """

    weight: Tensor
    mask: Tensor | None

    def __init__(self, weights: list[Tensor], settings: LoraSettings | None, seed: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.cat(weights).contiguous())
        self.settings = settings
        if settings is None:
            return
        generator = torch.Generator().manual_seed(seed)
        width, rank = weights[0].shape[1], settings.rank
        bound = 1 / math.sqrt(width)
        down = torch.empty(rank * len(weights), width).uniform_(-bound, bound, generator=generator)
        self.down = nn.Parameter(down)
        self.up = nn.Parameter(torch.zeros(sum(w.shape[0] for w in weights), rank * len(weights)))
        self.places: list[tuple[slice, slice]] = []
        mask = torch.zeros_like(self.up)
        start = 0
        for i, weight in enumerate(weights):
            block = (slice(start, start + weight.shape[0]), slice(i * rank, (i + 1) * rank))
            mask[block] = 1
            self.places.append(block)
            start += weight.shape[0]
        self.register_buffer("mask", mask.to(torch.bfloat16) if len(weights) > 1 else None)

    def forward(self, x: Tensor) -> Tensor:
        if self.settings is None:
            return functional.linear(x, self.weight)
        scale = self.settings.alpha / self.settings.rank
        up = (self.up * scale).to(x.dtype)
        return LoraLinear.apply(x, self.weight, self.down.to(x.dtype), up, self.mask)


class _Block(nn.Module):
    """A decoder layer over one sequence `(tokens, hidden)`."""

    norm_attention: Tensor
    norm_mlp: Tensor

    def __init__(self, state: dict[str, Tensor], layer: int, shape: Shape, settings: LoraSettings | None) -> None:
        super().__init__()
        self.shape = shape
        prefix = f"model.layers.{layer}."
        self.register_buffer("norm_attention", state[prefix + "input_layernorm.weight"])
        self.register_buffer("norm_mlp", state[prefix + "post_attention_layernorm.weight"])

        def weights(part: str, names: tuple[str, ...]) -> list[Tensor]:
            return [state[f"{prefix}{part}.{name}.weight"] for name in names]

        seed = layer * 10
        self.qkv = _Fused(weights("self_attn", ("q_proj", "k_proj", "v_proj")), settings, seed)
        self.out = _Fused(weights("self_attn", ("o_proj",)), settings, seed + 1)
        self.gate_up = _Fused(weights("mlp", ("gate_proj", "up_proj")), settings, seed + 2)
        self.down = _Fused(weights("mlp", ("down_proj",)), settings, seed + 3)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, past: tuple[Tensor, Tensor] | None, mask: Tensor | None
    ) -> Tensor:
        attended, _ = self.attend(x, cos, sin, past, mask)
        return self.mlp(x + attended)

    def mlp(self, x: Tensor) -> Tensor:
        hidden = RmsNorm.apply(x, self.norm_mlp, self.shape.eps)
        return x + self.down(SwiGlu.apply(self.gate_up(hidden)))

    def attend(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        past: tuple[Tensor, Tensor] | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Attention output and this call's keys and values, each `(kv_heads, tokens, head_dim)`."""
        shape = self.shape
        normed = RmsNorm.apply(x, self.norm_attention, shape.eps)
        tokens = x.shape[0]
        packed = self.qkv(normed).view(tokens, shape.heads + 2 * shape.kv_heads, shape.head_dim).transpose(0, 1)
        turned = Rotate.apply(packed[: shape.heads + shape.kv_heads], cos, sin)
        queries, keys = turned[: shape.heads], turned[shape.heads :]
        values = packed[shape.heads + shape.kv_heads :]
        all_keys, all_values = keys, values
        if past is not None:
            all_keys = torch.cat([past[0], keys], dim=1)
            all_values = torch.cat([past[1], values], dim=1)
        mixed = CausalAttention.apply(queries, all_keys, all_values, mask)
        flat = mixed.transpose(0, 1).reshape(tokens, shape.heads * shape.head_dim)
        return self.out(flat), (keys, values)


class FastLlama(nn.Module):
    """The embedded model with a trainable adapter, for one sequence at a time.

    Args:
        folder: a folder with `config.json` and `model.safetensors` of a Llama model with tied embeddings.
        settings: the adapter's rank, scale and first layer.
    """

    embedding: Tensor
    norm: Tensor

    def __init__(self, folder: Path, settings: LoraSettings) -> None:
        super().__init__()
        config = json.loads((folder / "config.json").read_text())
        self.shape = Shape(
            layers=config["num_hidden_layers"],
            hidden=config["hidden_size"],
            intermediate=config["intermediate_size"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head_dim=config["head_dim"],
            eps=config["rms_norm_eps"],
            theta=config["rope_parameters"]["rope_theta"],
        )
        self.settings = settings
        state = {name: tensor.to(torch.bfloat16) for name, tensor in load_file(folder / "model.safetensors").items()}
        self.register_buffer("embedding", state["model.embed_tokens.weight"])
        self.register_buffer("norm", state["model.norm.weight"])
        self.layers: list[_Block] = [
            _Block(state, i, self.shape, settings if i >= settings.first_layer else None)
            for i in range(self.shape.layers)
        ]
        self.blocks = nn.ModuleList(self.layers)

    def forward(
        self,
        ids: Tensor,
        wanted: Tensor,
        *,
        head: int = 0,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Logits `(wanted, vocabulary)` in float32 at the indices `wanted` of `ids` `(tokens,)`.

        Args:
            ids: The trunk's tokens, then those of its branches.
            wanted: Indices into `ids`, none below `head`.
            head: So many first tokens are put through without a graph: later tokens read their keys and values, and
                no gradient flows into them.
            positions: The position of every token; counted from 0 when left out.
            mask: What the branches' tokens see, `(branch tokens, tokens)`, 0 or -inf; None when there are none.

        Returns:
            The logits.
        """
        cos, sin = self._tables(positions if positions is not None else torch.arange(ids.shape[0]))
        past: list[tuple[Tensor, Tensor]] | None = None
        if head:
            with torch.no_grad():
                past = self._prefill(ids[:head], cos[:head], sin[:head])
        x = functional.embedding(ids[head:], self.embedding)
        for i, block in enumerate(self.layers):
            before = past[i] if past is not None else None
            with torch.set_grad_enabled(torch.is_grad_enabled() and i >= self.settings.first_layer):
                x = block(x, cos[head:], sin[head:], before, mask)
        picked = functional.rms_norm(x[wanted - head], (self.shape.hidden,), self.norm, self.shape.eps)
        return functional.linear(picked, self.embedding).float()

    def _prefill(self, ids: Tensor, cos: Tensor, sin: Tensor) -> list[tuple[Tensor, Tensor]]:
        x = functional.embedding(ids, self.embedding)
        kept: list[tuple[Tensor, Tensor]] = []
        for block in self.layers:
            attended, pair = block.attend(x, cos, sin)
            kept.append(pair)
            x = block.mlp(x + attended)
        return kept

    def _tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        half = self.shape.head_dim // 2
        frequencies = self.shape.theta ** (-torch.arange(half, dtype=torch.float32) / half)
        angles = torch.outer(positions.float(), frequencies)
        angles = torch.cat([angles, angles], dim=1)
        return angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)

    def trainable(self) -> list[nn.Parameter]:
        """The adapter's parameters, in a fixed order."""
        return [p for p in self.parameters() if p.requires_grad]

    def adapter_tensors(self) -> dict[str, Tensor]:
        """The adapter under peft's names, bfloat16."""
        tensors: dict[str, Tensor] = {}
        for stem, fused, block in self._adapted():
            tensors[f"{stem}.lora_A.weight"] = fused.down[block[1]].detach().to(torch.bfloat16).clone()
            tensors[f"{stem}.lora_B.weight"] = fused.up[block].detach().to(torch.bfloat16).clone()
        return tensors

    def load_adapter(self, tensors: dict[str, Tensor]) -> None:
        """Continue from an adapter that `adapter_tensors` gave (as float32 copies)."""
        for stem, fused, block in self._adapted():
            fused.down.data[block[1]] = tensors[f"{stem}.lora_A.weight"].float()
            fused.up.data[block] = tensors[f"{stem}.lora_B.weight"].float()

    def _adapted(self) -> Iterator[tuple[str, _Fused, tuple[slice, slice]]]:
        """Every adapted projection: peft's name for it, the fused layer that holds it, and its block in there."""
        for i, block in enumerate(self.layers):
            if i < self.settings.first_layer:
                continue
            groups = (
                ("self_attn", ("q_proj", "k_proj", "v_proj"), block.qkv),
                ("self_attn", ("o_proj",), block.out),
                ("mlp", ("gate_proj", "up_proj"), block.gate_up),
                ("mlp", ("down_proj",), block.down),
            )
            for part, names, fused in groups:
                for name, place in zip(names, fused.places, strict=True):
                    yield f"base_model.model.model.layers.{i}.{part}.{name}", fused, place

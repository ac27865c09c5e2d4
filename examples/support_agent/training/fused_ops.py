"""Hand-written forward and backward passes of a Llama block, for training on CPU cores.

Autograd's own graph of a block spends much of its time on copies, broadcasts and zero-filled slices; each function here
touches its activations as few times as it can. Every tensor is unbatched: `(tokens, width)`.
"""

# torch's stubs leave many members partly typed; every value here is annotated where it is made.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_CHUNK = 256  # queries a chunk: no chunk multiplies with keys that its mask would drop


class LoraLinear(torch.autograd.Function):
    """`x @ weight.T + (x @ down.T) @ up.T` with a frozen weight; `up` may be block diagonal (see `mask`)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, down: Tensor, up: Tensor, mask: Tensor | None) -> Tensor:
        low = x @ down.t()
        out = x @ weight.t()
        out.addmm_(low, up.t())
        ctx.save_for_backward(x, weight, down, up, low)
        ctx.mask = mask
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, down, up, low = ctx.saved_tensors
        grad = grads[0]
        grad_low = grad @ up
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = grad @ weight
            grad_x.addmm_(grad_low, down)
        grad_up = grad.t() @ low
        if ctx.mask is not None:
            grad_up.mul_(ctx.mask)
        return grad_x, None, grad_low.t() @ x, grad_up, None


class RmsNorm(torch.autograd.Function):
    """Root-mean-square norm with a frozen gain."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        scale = (norm.square_().div_(x.shape[-1]).add_(eps)).rsqrt_().to(x.dtype)
        ctx.save_for_backward(x, gain, scale)
        return (x * scale).mul_(gain)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, scale = ctx.saved_tensors
        weighted = grads[0] * gain
        unit = x * scale
        dot = (weighted * unit).sum(-1, keepdim=True, dtype=torch.float32).div_(x.shape[-1]).to(x.dtype)
        return weighted.addcmul_(unit, dot, value=-1).mul_(scale), None, None


class SwiGlu(torch.autograd.Function):
    """`silu(gate) * up` on the packed output `(tokens, 2 * width)` of a fused projection."""

    @staticmethod
    def forward(ctx: Any, packed: Tensor) -> Tensor:
        ctx.save_for_backward(packed)
        gate, up = packed.chunk(2, dim=1)
        return torch.nn.functional.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        (packed,) = ctx.saved_tensors
        gate, up = packed.chunk(2, dim=1)
        out = torch.empty_like(packed)
        grad_gate, grad_up = out.chunk(2, dim=1)
        sigmoid = gate.sigmoid()
        silu = gate * sigmoid
        torch.mul(grads[0], silu, out=grad_up)
        slope = silu.addcmul_(silu, sigmoid, value=-1).add_(sigmoid)  # d silu = s + silu (1 - s)
        torch.mul(slope.mul_(up), grads[0], out=grad_gate)
        return (out,)


class Rotate(torch.autograd.Function):
    """Rotary embedding of `(heads, tokens, dim)`; its gradient is the rotation back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        return _turn(grads[0], cos, -sin), None, None


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    out = x * cos
    out[..., :half].addcmul_(x[..., half:], sin[:, :half], value=-1)
    out[..., half:].addcmul_(x[..., :half], sin[:, half:])
    return out


class CausalAttention(torch.autograd.Function):
    """Grouped-query attention over a trunk and its branches; probabilities are kept for the gradient.

    The queries are the last tokens of the keys: first the trunk's, each of which sees everything before it, then the
    branches', which see what `mask` says (0 or -inf, `(branch tokens, all)`).
    Shapes: queries `(heads, new, dim)`, keys and values `(kv_heads, all, dim)`, result `(heads, new, dim)`.
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        kv_heads, total, dim = keys.shape
        heads, new, _ = queries.shape
        group = heads // kv_heads
        scaled = (queries * dim**-0.5).view(kv_heads, group, new, dim)
        out = torch.empty(kv_heads, group, new, dim, dtype=queries.dtype)
        kept: list[Tensor] = []
        ctx.chunks = _chunks(new, total, 0 if mask is None else mask.shape[0])
        for start, stop, seen, branch in ctx.chunks:
            width = stop - start
            rows = scaled[:, :, start:stop].reshape(kv_heads, -1, dim)
            scores = torch.bmm(rows, keys[:, :seen].transpose(1, 2)).view(kv_heads, group, width, seen)
            if branch is None or mask is None:
                scores[..., seen - width :].add_(torch.full((width, width), float("-inf"), dtype=scores.dtype).triu_(1))
            else:
                scores.add_(mask[branch : branch + width])
            chances = torch.softmax(scores, dim=-1).view(kv_heads, -1, seen)
            out[:, :, start:stop] = torch.bmm(chances, values[:, :seen]).view(kv_heads, group, width, dim)
            if ctx.needs_input_grad[0]:
                kept.append(chances)
        ctx.save_for_backward(scaled, keys, values, *kept)
        return out.view(heads, new, dim)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scaled, keys, values, *kept = ctx.saved_tensors
        kv_heads, group, new, dim = scaled.shape
        total = keys.shape[1]
        grad = grads[0].reshape(kv_heads, group, new, dim)
        grad_queries = torch.empty_like(scaled)
        grad_keys = torch.zeros(kv_heads, total, dim, dtype=torch.float32)
        grad_values = torch.zeros(kv_heads, total, dim, dtype=torch.float32)
        for chances, (start, stop, seen, _) in zip(kept, ctx.chunks, strict=True):
            rows = scaled[:, :, start:stop].reshape(kv_heads, -1, dim)
            out = grad[:, :, start:stop].reshape(kv_heads, -1, dim)
            grad_values[:, :seen] += torch.bmm(chances.transpose(1, 2), out)
            back = torch.bmm(out, values[:, :seen].transpose(1, 2))
            slope = torch.ops.aten._softmax_backward_data(back, chances, -1, chances.dtype)
            grad_queries[:, :, start:stop] = torch.bmm(slope, keys[:, :seen]).view(kv_heads, group, stop - start, dim)
            grad_keys[:, :seen] += torch.bmm(slope.transpose(1, 2), rows)
        queries = grad_queries.mul_(dim**-0.5).view(kv_heads * group, new, dim)
        return queries, grad_keys.to(keys.dtype), grad_values.to(values.dtype), None


def _chunks(new: int, total: int, branches: int) -> list[tuple[int, int, int, int | None]]:
    """Half-open query ranges, how many keys each sees, and for a branch chunk its first row in the mask."""
    trunk = new - branches
    chunks: list[tuple[int, int, int, int | None]] = []
    for start in range(0, trunk, _CHUNK):
        stop = min(start + _CHUNK, trunk)
        chunks.append((start, stop, total - new + stop, None))
    for start in range(trunk, new, _CHUNK):
        chunks.append((start, min(start + _CHUNK, new), total, start - trunk))
    return chunks

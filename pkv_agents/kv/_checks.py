"""What is checked before any tensor is touched: tokens, their place, and whose a segment is."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pkv_agents.errors import ContextLengthError, SegmentError
from pkv_agents.kv.segment import KVSegment


def check_tokens(ids: Sequence[int], start: int, *, vocabulary: int, limit: int, image: int | None) -> None:
    """Raises if tokens cannot be forwarded at a position.

    Args:
        ids: Token ids.
        start: Position of the first.
        vocabulary: How many ids there are.
        limit: Most tokens of a sequence.
        image: The id that holds the place of an image; None if the model takes none.

    Raises:
        SegmentError: If there is no id, or one is no number, not in the vocabulary, or an image's.
        ContextLengthError: If they do not fit the context.
    """
    if len(ids) and (isinstance(ids[0], Sequence) or getattr(ids[0], "ndim", 0)):
        raise SegmentError("ids are the numbers of one sequence, not rows of a batch: make one call for each, unpadded")
    if not len(ids) or not 0 <= min(ids) <= max(ids) < vocabulary:
        raise SegmentError(f"ids must be at least one number from 0 to {vocabulary - 1}")
    if image is not None and image in ids:
        raise SegmentError("ids hold the place of an image; only text can be forwarded")
    if start < 0 or start + len(ids) > limit:
        raise ContextLengthError(f"{len(ids)} tokens at position {start} do not fit a context of {limit}")


def check_segment(segment: KVSegment, fingerprint: str, limit: int, dtype: torch.dtype, device: torch.device) -> None:
    """Raises SegmentError if a segment is not this model's, or not where and how the model computes.

    Args:
        segment: The segment.
        fingerprint: The model's, with its adapter.
        limit: Most tokens of a sequence.
        dtype: Type of the model's keys and values.
        device: Where the model is.
    """
    if segment.fingerprint != fingerprint:
        raise SegmentError("this segment was computed by another model or adapter: compile it again with this one")
    if segment.stop > limit:
        raise SegmentError(f"this segment ends at {segment.stop}, but the context ends at {limit}")
    for tensor in (*segment.keys, *segment.values):
        if tensor.dtype != dtype or tensor.device != device:
            raise SegmentError(
                f"this segment is {tensor.dtype} on {tensor.device}, but the model computes {dtype} on {device}: "
                "compile it again, or move it there"
            )

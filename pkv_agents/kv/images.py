"""Images in a prompt: which tokens are one, where its patches stand, and what it shows.

Models with M-RoPE give a token three positions: in time, down and across. Text counts up on all three at once; the
patches of an image stand on a plane, and the text behind it goes on from its longer side.

    tokens     t t [ i i i i i i ] t        a grid of 2 by 3
    time       0 1   2 2 2 2 2 2   5
    down       0 1   2 2 2 3 3 3   5
    across     0 1   2 3 4 2 3 4   5

A move adds the same to all three, so keys of images turn as those of text do. An image is seen once, when the segment
that holds it is prefilled; spliced anywhere, it is not looked at again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch

from pkv_agents.errors import ContextLengthError, SegmentError
from pkv_agents.kv._device import on_device
from pkv_agents.kv._loaded import LoadedModel
from pkv_agents.kv.image_span import ImageSpan


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """What a model's processor makes of images.

    Attributes:
        pixels: `pixel_values`: the patches of all images, one after the other.
        grid: `image_grid_thw`: of each image how many patches in time, down and across, (images, 3).
    """

    pixels: torch.Tensor
    grid: torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A prompt with images, ready to be forwarded.

    Attributes:
        spans: Its images.
        positions: Of each token on each axis, (3, 1, tokens), from the start of the prompt.
        arguments: What the model's forward needs beside them.
    """

    spans: tuple[ImageSpan, ...]
    positions: torch.Tensor
    arguments: dict[str, object]


def place(loaded: LoadedModel, ids: Sequence[int], images: Images, start: int, limit: int) -> Placed:
    """Finds the images of a prompt. Nothing is forwarded.

    Args:
        loaded: The model.
        ids: Token ids; as many of the image's id for each image as it has patches after merging.
        images: The images.
        start: Position of the first token.
        limit: Most tokens of a sequence.

    Raises:
        SegmentError: If the model takes no images, an id is not in the vocabulary, there is a video, or the tokens do
            not fit the images.
        ContextLengthError: If they do not fit the context.
    """
    config = loaded.model.config
    image, video = (getattr(config, name, None) for name in ("image_token_id", "video_token_id"))
    index = getattr(getattr(loaded.model, "model", None), "get_rope_index", None)
    if image is None or index is None:
        raise SegmentError("this model takes no images")
    if not len(ids) or not 0 <= min(ids) <= max(ids) < loaded.config.vocab_size:
        raise SegmentError(f"ids must be at least one number from 0 to {loaded.config.vocab_size - 1}")
    grid = [[int(side) for side in row] for row in images.grid]
    if video in ids or any(frames != 1 for frames, _, _ in grid):
        raise SegmentError("a video's frames stand apart in time; only images of one frame can be moved")
    merge = int(getattr(getattr(config, "vision_config", None), "spatial_merge_size", 1))
    runs = _runs(np.asarray(ids) == image)
    wanted = [down * across // merge**2 for _, down, across in grid]
    found = [stop - begin for begin, stop in runs]
    if found != wanted:
        raise SegmentError(f"the images need runs of {wanted} tokens, but the ids have runs of {found}")
    device = images.pixels.device
    tokens = on_device([list(ids)], device)
    kinds = on_device([[int(token == image) for token in ids]], device)
    positions = cast("Callable[..., tuple[torch.Tensor, object]]", index)(tokens, kinds, image_grid_thw=images.grid)[0]
    spans = tuple(
        ImageSpan(*run, across // merge, digest)
        for run, (_, _, across), digest in zip(runs, grid, _digests(images.pixels, grid), strict=True)
    )
    if start < 0 or start + len(ids) - sum(wanted) + sum(span.extent for span in spans) > limit or len(ids) > limit:
        raise ContextLengthError(f"{len(ids)} tokens at position {start} do not fit a context of {limit}")
    arguments: dict[str, object] = {
        "pixel_values": images.pixels,
        "image_grid_thw": images.grid,
        "mm_token_type_ids": kinds,
    }
    return Placed(spans, positions, arguments)


def _runs(marked: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    """The half-open runs of marked places."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
    return [(int(begin), int(stop)) for begin, stop in edges.reshape(-1, 2)]


def _digests(pixels: torch.Tensor, grid: Sequence[Sequence[int]]) -> list[str]:
    """A digest of each image's patches and shape."""
    found: list[str] = []
    first = 0
    for shape in grid:
        rows = pixels[first : first + shape[0] * shape[1] * shape[2]].contiguous()
        first += len(rows)
        data = rows.view(torch.uint8).cpu().numpy().tobytes()
        found.append(hashlib.sha256(repr(list(shape)).encode() + data).hexdigest()[:16])
    return found

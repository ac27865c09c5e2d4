"""Forwards over KV segments: behind one, or at scattered places inside one.

    segment        [ a b c d e f ]            forward(segment, [x, y])    -> [ a b c d e f x y ]
    slots                b     e              recompute(segment, {1, 4})  -> [ a B c d E f ]

All recomputed tokens go through the model in one forward; in each layer they see one another's new keys and values. A
segment that comes in is never written: each forward copies it once into a buffer with room, which becomes the segment
that goes out. (For token after token, where that copy would cost, write the segment into a slab.)
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from pkv_agents.errors import SegmentError
from pkv_agents.kv import capability
from pkv_agents.kv._attention import AttentionRecorder
from pkv_agents.kv._buffers import buffers_of, restore
from pkv_agents.kv._checks import check_segment, check_tokens
from pkv_agents.kv._device import on_device
from pkv_agents.kv._facts import device_of, fingerprint_of, identity_of
from pkv_agents.kv._hf import (
    cache_layers,
    empty_cache,
    layers_of,
    refusal_of_cache,
    require_supported_version,
    sequence_cache,
)
from pkv_agents.kv._learn import learn_limit, learn_rule
from pkv_agents.kv._loaded import LoadedModel, model_type_of
from pkv_agents.kv._masks import layer_kinds, scattered_mask
from pkv_agents.kv._proof import TOLERANCES, prove
from pkv_agents.kv.families import family_of
from pkv_agents.kv.image_span import ImageSpan
from pkv_agents.kv.images import Images, place
from pkv_agents.kv.origin import EXACT, Composed, Origin
from pkv_agents.kv.segment import KVSegment, joined
from pkv_agents.kv.slab import Slab, TokenIds


@dataclass(frozen=True, slots=True, eq=False)
class Forwarded:
    """What a forward gives.

    Attributes:
        segment: The whole sequence.
        logits: Of its last token, (vocab,); None if that token was not forwarded.
        computed: Tokens that went through the model.
    """

    segment: KVSegment
    logits: torch.Tensor | None
    computed: int


class SegmentModel:
    """A loaded causal language model whose KV segments can be cut, moved, joined and edited. Safe for many threads.

    Making one proves the rotary rule on the model itself: a few tokens are forwarded at two positions.

    Args:
        model: A transformers model, or a peft model round one, in evaluation mode. It is never changed.
        adapter: Name of the adapter that must be active at each forward; None takes the one active now.

    Attributes:
        rule: How its keys carry their position.
        fingerprint: Identifies configuration, weights and adapter; segments of others are refused.
        context_limit: Most tokens of a sequence.
        device: Where its tensors are.
        dtype: Type of keys and values.

    Raises:
        UnsupportedModelError: If its segments cannot be handled; the message has the reason.
        AdapterError: If the adapter is not the active one.
    """

    def __init__(self, model: object, *, adapter: str | None = None) -> None:
        require_supported_version()
        if reason := family_of(model_type_of(model)).refusal:
            raise capability.refused(reason)
        self._loaded = loaded = LoadedModel(model, adapter)
        family = family_of(loaded.config.model_type)
        reason = refusal_of_cache(loaded)
        reason = reason or capability.segment_refusal(loaded.config, family, cache_layers(loaded))
        reason = reason or capability.input_refusal(loaded.model.config, family)
        capability.require(reason is None, str(reason))
        self.device = device_of(loaded.model)
        self.context_limit = learn_limit(loaded.config)
        self.fingerprint = identity_of(fingerprint_of(loaded.model, loaded.config), loaded.adapter)
        trial = self.prefill((0,)).segment
        self.dtype = trial.keys[0].dtype
        capability.require(self.dtype in TOLERANCES, f"it caches keys and values as {self.dtype}")
        self._kinds = layer_kinds(loaded.config, len(trial.keys))
        self.rule = learn_rule(loaded, family, self._kinds, self.device, self.context_limit)
        words = loaded.config.vocab_size // 2, loaded.config.vocab_size // 3
        prove(self.rule, lambda ids, start: self.prefill(ids, start=start).segment, words)

    def prefill(self, ids: Sequence[int], *, start: int = 0, images: Images | None = None) -> Forwarded:
        """Forwards tokens with nothing before them.

        Args:
            ids: Token ids, at least one.
            start: Position of the first.
            images: What stands at the places of images in `ids`, for models that take them.

        Raises:
            SegmentError: If there is no id, one is not in the vocabulary, or the images do not fit.
            ContextLengthError: If they do not fit the context.
        """
        if images is None:
            self.check_ids(ids, start)
            spans, more = (), {}
            where = torch.arange(len(ids), device=self.device)
        else:
            placed = place(self._loaded, ids, images, start, self.context_limit)
            spans, where, more = placed.spans, placed.positions, placed.arguments
        with torch.inference_mode(), self._loaded.lock:
            cache = empty_cache()
            logits = self._loaded.call(self._tensor(ids), where + start, cache, more=more)[-1]
            layers = layers_of(cache)
        done = self._segment(
            np.asarray(ids, dtype=np.int32), np.arange(len(ids), dtype=np.int32), start, layers, images=spans
        )
        return Forwarded(replace(done, written=done.positions), logits, len(ids))

    def forward(self, segment: KVSegment, ids: Sequence[int]) -> Forwarded:
        """Forwards tokens behind a segment; they inherit its origin.

        Raises:
            SegmentError: If there is no id, one is not in the vocabulary, or the segment is another model's.
            ContextLengthError: If they do not fit the context.
        """
        return self.recompute(segment, (), ids, origin=segment.origin)

    def recompute(
        self,
        segment: KVSegment,
        slots: Sequence[int],
        ids: Sequence[int] = (),
        *,
        origin: Origin,
        recorder: AttentionRecorder | None = None,
    ) -> Forwarded:
        """Computes tokens of a segment anew, and new tokens behind it, in one forward.

        Args:
            segment: The sequence; it stays as it is.
            slots: Which of its tokens to compute anew, counted from its start.
            ids: New tokens behind it.
            origin: What the result is.
            recorder: Sees the attention of this forward.

        Raises:
            SegmentError: If nothing is to be computed, a slot or an id does not exist, or the segment is another
                model's.
            ContextLengthError: If the new tokens do not fit the context.
        """
        return self.recompute_joined((segment,), slots, ids, origin=origin, recorder=recorder)

    def recompute_joined(
        self,
        parts: Sequence[KVSegment],
        slots: Sequence[int],
        ids: Sequence[int] = (),
        *,
        origin: Origin,
        recorder: AttentionRecorder | None = None,
    ) -> Forwarded:
        """What `recompute` gives for the `concat` of these parts, whose keys and values are copied but once.

        Args:
            parts: At least one; each begins where the one before ends.
            slots: Which tokens to compute anew, counted from the start of the first part.
            ids: New tokens behind the last.
            origin: What the result is.
            recorder: Sees the attention of this forward.

        Raises:
            SegmentError: As `recompute`; also if the parts leave a gap or overlap.
            ContextLengthError: If the new tokens do not fit the context.
        """
        segment = joined(parts)
        anew = sorted(set(slots))
        if anew and not 0 <= anew[0] <= anew[-1] < len(segment):
            raise SegmentError(f"slots {anew[0]} to {anew[-1]} are not inside a segment of {len(segment)} tokens")
        if any(image.start <= slot < image.stop for image in segment.images for slot in anew):
            raise SegmentError("tokens of an image cannot be computed anew: prefill the segment with its images")
        for part in parts:
            self.check(part)
        if len(ids) or not anew:
            self.check_ids(ids, segment.stop)
        size, total = len(segment), len(segment) + len(ids)
        places = np.asarray([*anew, *range(size, total)], dtype=np.int32)
        all_ids = np.concatenate([segment.ids, np.asarray(ids, dtype=np.int32)])
        stand = np.concatenate([segment.positions, np.arange(segment.stop, segment.stop + len(ids), dtype=np.int32)])
        with torch.inference_mode(), self._loaded.lock:
            where = self._tensor(places)
            layers = buffers_of(self.rule, parts, total)
            # Behind a segment the model's own causal mask is right, and faster.
            mask = scattered_mask(self._loaded.config, self._kinds, where, total, self.dtype) if anew else None
            cache = sequence_cache(layers, where)
            with recorder or contextlib.nullcontext():
                tokens, positions = self._tensor(all_ids[places]), self._tensor(stand[places])
                logits = self._loaded.call(tokens, positions, cache, mask=mask)[-1]
            written = np.concatenate([restore(self.rule, parts, layers, anew), stand[size:]])
        return Forwarded(
            self._segment(all_ids, written, segment.start, layers, like=segment, origin=origin),
            logits if places[-1] == total - 1 else None,
            len(places),
        )

    def fill(self, slab: Slab, segment: KVSegment) -> None:
        """Writes a segment into an empty slab, for decoding behind it without a copy a token.

        Args:
            slab: Held by the caller; it takes the segment's origin, which all later tokens inherit.
            segment: It begins at position 0.

        Raises:
            SegmentError: If the slab is not empty or of another shape, the segment begins elsewhere or is another
                model's.
            SlabError: If it does not fit the context.
        """
        self.check(segment)
        if slab.length or segment.start or segment.images:
            raise SegmentError("a segment of text that begins at position 0 is written into an empty slab")
        shape = slab.shape
        wanted = (shape.heads, shape.key_dim, shape.heads, shape.value_dim, shape.dtype)
        for keys, values in zip(segment.keys, segment.values, strict=True):
            if (keys.shape[0], keys.shape[2], values.shape[0], values.shape[2], keys.dtype) != wanted:
                raise SegmentError("this slab was made for a model of another shape")
        if len(segment.keys) != shape.layers:
            raise SegmentError("this slab was made for a model with another number of layers")
        slab.reserve(len(segment))
        with torch.inference_mode():
            views = [slab.layer(index, len(segment)) for index in range(shape.layers)]
            self.rule.write(segment, [(keys[0], values[0]) for keys, values in views])
        slab.commit(segment.ids.tolist())
        # Turned keys are right to a rounding error, which is more than an exact look-up may hand out.
        turned = (segment.written != segment.positions).any()
        slab.origin = Composed((segment.digest,)) if turned and segment.origin == EXACT else segment.origin

    def check(self, segment: KVSegment) -> None:
        """Raises SegmentError if a segment was computed by another model or adapter, or is outside the context."""
        check_segment(segment, self.fingerprint, self.context_limit, self.dtype, self.device)

    def check_ids(self, ids: Sequence[int], start: int) -> None:
        """Raises SegmentError or ContextLengthError if tokens cannot be forwarded at a position."""
        image = getattr(self._loaded.model.config, "image_token_id", None)
        check_tokens(ids, start, vocabulary=self._loaded.config.vocab_size, limit=self.context_limit, image=image)

    def _segment(
        self,
        ids: TokenIds,
        written: TokenIds,
        start: int,
        layers: list[tuple[torch.Tensor, torch.Tensor]],
        *,
        like: KVSegment | None = None,
        origin: Origin = EXACT,
        images: tuple[ImageSpan, ...] = (),
    ) -> KVSegment:
        return KVSegment(
            ids=ids,
            written=written,
            start=start,
            keys=tuple(keys[0] for keys, _ in layers),
            values=tuple(values[0] for _, values in layers),
            fingerprint=self.fingerprint,
            origin=origin,
            fields=like.fields if like else (),
            images=like.images if like else images,
        )

    def _tensor(self, numbers: Sequence[int] | TokenIds) -> torch.Tensor:
        return on_device(numbers, self.device)

"""The hot path never asks a tensor for a number: on a GPU the host would wait there until all work is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pkv_agents.kv import FieldSpan, HFModel, KVSegment, SegmentModel, Slab, edit, splice
from pkv_agents.kv._device import on_device
from tests.kv.zoo import some_ids, tiny

ASKS = {"_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "unique_consecutive"}


class Watch(TorchDispatchMode):
    """Notes every operation whose result must be known to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if name in ASKS:
            self.asked.append(name)
        return func(*args, **(kwargs or {}))


@cache
def model(name: str = "llama") -> SegmentModel:
    return SegmentModel(tiny(name))


@cache
def prompt(name: str = "llama") -> KVSegment:
    return model(name).prefill(some_ids(30)).segment.with_fields(FieldSpan("status", 5, 8))


HOT: dict[str, Callable[[str], object]] = {
    "prefill": lambda name: model(name).prefill(some_ids(9)),
    "forward": lambda name: model(name).forward(prompt(name), [1, 2]),
    "moved": lambda name: model(name).forward(model(name).rule.reposition(prompt(name), 50), [1, 2]),
    "in_place": lambda name: edit(model(name), prompt(name), "status", [9, 9, 9, 9], mode="in_place"),
    "splice": lambda name: splice(model(name), prompt(name), [prompt(name).with_fields()], query=[3], seam=2),
}


@pytest.mark.parametrize("operation", HOT)
@pytest.mark.parametrize("name", ["llama", "gemma3_text", "cohere2", "deepseek_v3", "gptj"])
def test_no_operation_on_segments_asks_a_tensor(name: str, operation: str) -> None:
    prompt(name)
    with Watch() as watch:
        HOT[operation](name)
    assert watch.asked == []


def test_no_forward_on_a_slab_asks_a_tensor() -> None:
    slabs = HFModel(tiny("llama"))
    slab = Slab(slabs.facts.shape, capacity=64, limit=128)
    slabs.forward(slab, some_ids(20))
    with Watch() as watch:
        slabs.forward(slab, [1, 2, 3])
        slabs.forward(slab, [4])
    assert watch.asked == []


def test_the_watch_sees() -> None:
    with Watch() as watch:
        int(torch.ones(3).argmax())
    assert watch.asked == ["_local_scalar_dense"]


@pytest.mark.parametrize("numbers", [[1, 2], (3,), np.arange(4, dtype=np.int32)])
def test_numbers_arrive_as_they_are_and_are_no_view(numbers: Any) -> None:
    there = on_device(numbers, torch.device("cpu"))
    assert there.dtype == torch.int64 and there.tolist() == list(numbers)
    there += 1
    assert there.tolist() != list(numbers)

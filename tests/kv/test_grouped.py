"""Attention with the heads of a group laid together: what transformers' own function computes, and no trace left."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from pkv_agents.kv import HFModel, Slab
from pkv_agents.kv._grouped import _attention, _masks, grouped_attention  # pyright: ignore[reportPrivateUsage]
from tests.kv.zoo import build, config_of

CPU = torch.device("cpu")


def module(groups: int) -> Any:
    made = cast("Any", torch.nn.Module())
    made.num_key_value_groups, made.is_causal, made.training = groups, True, False
    return made


def both(new: int, total: int, groups: int, mask: torch.Tensor | None, **options: Any) -> tuple[Any, Any]:
    torch.manual_seed(new * total)
    query = torch.randn(1, 2 * groups, new, 8)
    key, value = torch.randn(1, 2, total, 8), torch.randn(1, 2, total, 8)
    have, _ = _attention(module(groups), query, key, value, mask, **options)
    _masks.made.clear()
    want, _ = cast("Any", sdpa_attention_forward)(module(groups), query, key, value, mask, **options)
    return have, want


def causal(new: int, total: int, window: int) -> torch.Tensor:
    places, own = torch.arange(total), torch.arange(total - new, total).unsqueeze(-1)
    return ((places <= own) & (places > own - window))[None, None]


@given(
    new=st.integers(2, 40),
    before=st.integers(0, 60),
    groups=st.integers(1, 4),
    window=st.integers(1, 100),
    additive=st.booleans(),
    scaling=st.sampled_from([None, 0.3]),
)
def test_it_is_what_transformers_computes(
    new: int, before: int, groups: int, window: int, additive: bool, scaling: float | None
) -> None:
    mask = causal(new, new + before, window)
    if additive:
        mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    have, want = both(new, new + before, groups, mask, scaling=scaling)
    torch.testing.assert_close(have, want, atol=1e-5, rtol=1e-4)
    assert have.is_contiguous()


@pytest.mark.parametrize("new", [1, 300])
def test_one_token_and_very_many(new: int) -> None:
    mask = None if new == 1 else causal(new, 700, 700)
    torch.testing.assert_close(*both(new, 700, 3, mask), atol=1e-5, rtol=1e-4)


def test_a_mask_for_each_head_is_left_to_transformers() -> None:
    mask = causal(3, 20, 20).expand(1, 6, 3, 20).clone()
    mask[:, 2, :, :4] = False
    torch.testing.assert_close(*both(3, 20, 3, mask), atol=1e-5, rtol=1e-4)


def test_layers_share_a_mask_and_other_masks_are_others() -> None:
    config = SimpleNamespace(_attn_implementation="sdpa")
    with grouped_attention(config, CPU):
        near, far = causal(3, 20, 4), causal(3, 20, 20)
        for mask in (near, far, near):
            query, key = torch.randn(1, 6, 3, 8), torch.randn(1, 2, 20, 8)
            have, _ = _attention(module(3), query, key, key, mask)
            want, _ = cast("Any", sdpa_attention_forward)(module(3), query, key, key, mask)
            torch.testing.assert_close(have, want, atol=1e-5, rtol=1e-4)
        assert len(_masks.made) == 2
    assert not _masks.made


def test_the_configuration_is_as_before_also_after_a_failure_and_beside_another_thread() -> None:
    config = SimpleNamespace(_attn_implementation="sdpa")

    def fail() -> None:
        with grouped_attention(config, CPU):
            assert config._attn_implementation != "sdpa"
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert config._attn_implementation == "sdpa"
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with grouped_attention(config, CPU):
            inside.set()
            leave.wait(5)

    thread = threading.Thread(target=other)
    with grouped_attention(config, CPU):
        thread.start()
        assert inside.wait(5)
    assert config._attn_implementation != "sdpa", "the other thread's forward is under way"
    leave.set()
    thread.join()
    assert config._attn_implementation == "sdpa"


@pytest.mark.parametrize("implementation", ["eager", "flash_attention_2", None])
def test_another_implementation_is_left_alone(implementation: str | None) -> None:
    config = SimpleNamespace(_attn_implementation=implementation)
    with grouped_attention(config, CPU):
        assert config._attn_implementation == implementation


@pytest.mark.parametrize("family", ["llama", "qwen3", "falcon"])
def test_a_forward_behind_a_prefix_is_that_of_the_whole(family: str) -> None:
    model = HFModel(made := build(config_of(family)))
    ids = [3 + index * 7 % 40 for index in range(23)]
    whole, cut = (Slab(model.facts.shape, capacity=32, limit=64) for _ in range(2))
    want = model.forward(whole, ids)
    model.forward(cut, ids[:9])
    torch.testing.assert_close(model.forward(cut, ids[9:]), want, atol=1e-4, rtol=1e-3)
    assert made.config._attn_implementation == "sdpa"

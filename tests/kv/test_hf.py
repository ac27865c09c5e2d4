"""The transformers boundary: which models are taken, what a forward on a slab gives, adapters, versions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from transformers import (
    AutoModelForCausalLM,
    FalconConfig,
    Gemma2Config,
    GPT2Config,
    MistralConfig,
    Qwen3Config,
    T5Config,
    T5ForConditionalGeneration,
)

from pkv_agents.errors import AdapterError, UnsupportedModelError
from pkv_agents.kv import HFModel, Slab
from tests.local.tiny import tiny_llama

SMALL: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}


def build(config: Any) -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize(
    "config",
    [
        Qwen3Config(**SMALL),
        MistralConfig(**SMALL, sliding_window=None),
        Qwen3Config(**SMALL, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}),
        Qwen3Config(
            **SMALL,
            rope_parameters={
                "rope_type": "yarn",
                "factor": 2.0,
                "rope_theta": 1e4,
                "original_max_position_embeddings": 128,
            },
        ),
    ],
    ids=["qwen3", "mistral", "linear", "yarn"],
)
def test_a_forward_behind_a_prefix_equals_one_forward(config: Any) -> None:
    model = HFModel(build(config))
    ids = torch.randint(0, 64, (60,), generator=torch.Generator().manual_seed(1)).tolist()
    whole, parts = new_slab(model), new_slab(model)
    expected = model.forward(whole, ids)
    for start, end in [(0, 30), (30, 31), (31, 50), (50, 60)]:
        got = model.forward(parts, ids[start:end])
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)  # pyright: ignore[reportPossiblyUnbound]
    assert parts.ids.tolist() == ids
    for layer in range(2):
        torch.testing.assert_close(parts.layer(layer, 60), whole.layer(layer, 60), atol=1e-4, rtol=0)


def new_slab(model: HFModel) -> Slab:
    return Slab(model.facts.shape, capacity=128, limit=model.facts.context_limit)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (MistralConfig(**SMALL, sliding_window=8), "sliding"),
        (Gemma2Config(**SMALL), "sliding"),
        (GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0), "rotary"),
        (FalconConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, alibi=True), "ALiBi"),
        (
            Qwen3Config(**SMALL, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}),
            "depend on the length",
        ),
        (Qwen3Config(**SMALL, layer_types=["full_attention", "sliding_attention"], sliding_window=8), "sliding"),
    ],
    ids=["sliding", "gemma2", "gpt2", "alibi", "dynamic", "hybrid"],
)
def test_what_would_be_wrong_is_refused_with_the_reason(config: Any, reason: str) -> None:
    with pytest.raises(UnsupportedModelError, match=reason):
        HFModel(build(config))


def test_a_linear_attention_hybrid_is_refused() -> None:
    config = transformers.Qwen3NextConfig(
        **SMALL,
        num_experts=2,
        num_experts_per_tok=1,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        layer_types=["linear_attention", "full_attention"],
    )
    with pytest.raises(UnsupportedModelError, match="linear_attention"):
        HFModel(build(config))


def test_an_encoder_decoder_is_refused() -> None:
    model = T5ForConditionalGeneration(T5Config(vocab_size=64, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2))
    with pytest.raises(UnsupportedModelError):
        HFModel(model.eval())


def test_something_that_is_no_model_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="no causal language model"):
        HFModel(torch.nn.Linear(2, 2))


def test_training_mode_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match=r"model\.eval\(\)"):
        HFModel(tiny_llama().train())


def test_a_quantised_cache_is_refused() -> None:
    model = tiny_llama()
    model.generation_config.cache_implementation = "quantized"
    with pytest.raises(UnsupportedModelError, match="quantized cache"):
        HFModel(model)


@pytest.mark.parametrize("version", ["5.23.9", "5.40.0", "4.57.1", "6.0.0", "dev"])
def test_an_unknown_transformers_is_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pkv_agents.kv._hf.transformers", SimpleNamespace(__version__=version))
    with pytest.raises(UnsupportedModelError, match="install one of"):
        HFModel(tiny_llama())


def test_the_fingerprint_tells_weights_apart() -> None:
    assert HFModel(tiny_llama(0)).facts.fingerprint == HFModel(tiny_llama(0)).facts.fingerprint
    assert HFModel(tiny_llama(0)).facts.fingerprint != HFModel(tiny_llama(1)).facts.fingerprint


def test_bfloat16_is_cached_in_its_own_type() -> None:
    model = HFModel(tiny_llama().bfloat16())
    assert model.facts.shape.dtype == torch.bfloat16
    slab = new_slab(model)
    assert model.forward(slab, [5, 6, 7]).shape == (448,)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft 0.21 asks for it
def test_one_engine_serves_one_adapter() -> None:
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    wrapped = peft.get_peft_model(tiny_llama(), lora, adapter_name="shop").eval()
    with pytest.raises(AdapterError, match="shop"):
        HFModel(wrapped, adapter="other")
    model = HFModel(wrapped, adapter="shop")
    slab = new_slab(model)
    model.forward(slab, [5, 6, 7])
    before = slab.checksum()
    wrapped.add_adapter("second", lora)
    wrapped.eval()
    wrapped.set_adapter("second")
    with pytest.raises(AdapterError, match="made for shop"):
        model.forward(slab, [8])
    with wrapped.disable_adapter(), pytest.raises(AdapterError):
        model.forward(slab, [8])
    assert slab.checksum() == before
    wrapped.set_adapter("shop")
    model.forward(slab, [8])


def test_an_adapter_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AdapterError, match="active: none"):
        HFModel(tiny_llama(), adapter="shop")

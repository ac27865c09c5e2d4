"""Which model answers, and what is said about one that cannot. Tiny random models stand in for real ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from examples.support_agent import models
from examples.support_agent.models import NO_ADAPTER, check_adapter, choose_model, foreign_errors, with_adapter
from pkv_agents import AdapterError, ModelError, TemplateError, UnsupportedModelError
from tests.local.tiny import tiny_llama, tiny_tokenizer

LAYER = "model.layers.1.self_attn.q_proj"


def save_model(folder: Path, *, template: bool = True, **changes: Any) -> Path:
    tiny_llama(**changes).save_pretrained(folder)
    tokenizer = tiny_tokenizer()
    if not template:
        tokenizer.chat_template = None
    tokenizer.save_pretrained(folder)
    return folder


def save_adapter(folder: Path, *, layer: str = LAYER, width: int = 32) -> Path:
    folder.mkdir()
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "some-model",
        "r": 2,
        "lora_alpha": 4,
        "target_modules": ["q_proj"],
        "layers_to_transform": [1],
        "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(1)
    name = f"base_model.model.{layer}.lora_"
    tensors = {
        f"{name}A.weight": torch.randn(2, width, generator=generator),
        f"{name}B.weight": torch.randn(32, 2, generator=generator),
    }
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder


def test_a_folder_is_a_local_model(tmp_path: Path) -> None:
    choice = choose_model(str(save_model(tmp_path / "tiny")))
    assert (choice.name, choice.adapter, choice.ttft, choice.counts_exactly) == ("tiny", None, "engine", True)
    assert choice.count("cancel_order") == len(tiny_tokenizer().encode("cancel_order", add_special_tokens=False))
    one: Any = choice.for_arm("one")
    assert one.salt == "one"
    answer = one.invoke("hello", max_tokens=2)
    assert answer.usage_metadata["input_token_details"]["cache_read"] == 0
    assert one.invoke("hello", max_tokens=2).usage_metadata["input_token_details"]["cache_read"] > 0
    again: Any = choice.for_arm("one")
    assert again.invoke("hello", max_tokens=2).usage_metadata["input_token_details"]["cache_read"] == 0


def test_an_adapter_is_added_into_the_weights(tmp_path: Path) -> None:
    folder = save_adapter(tmp_path / "adapter")
    base, model = tiny_llama(), with_adapter(tiny_llama(), folder)
    weights = dict(model.named_parameters())
    from safetensors.torch import load_file

    tensors = load_file(folder / "adapter_model.safetensors")
    a, b = (tensors[f"base_model.model.{LAYER}.lora_{half}.weight"] for half in "AB")
    for name, before in base.named_parameters():
        added = 2.0 * (b @ a) if name == f"{LAYER}.weight" else torch.zeros(())
        torch.testing.assert_close(weights[name].detach(), before.detach() + added)
    assert not any("lora" in name for name in weights)


def test_an_adapter_for_another_model(tmp_path: Path) -> None:
    wide = save_adapter(tmp_path / "wide", width=576)
    with pytest.raises(AdapterError, match=r"for another model \(some-model\): its .*q_proj has width 576.* has 32"):
        check_adapter(tiny_llama(), wide)
    deep = save_adapter(tmp_path / "deep", layer="model.layers.29.mlp.up_proj")
    with pytest.raises(AdapterError, match=r"for another model \(some-model\): this one has no"):
        check_adapter(tiny_llama(), deep)


def test_an_adapter_for_another_model_of_the_same_shape(tmp_path: Path) -> None:
    folder = save_adapter(tmp_path / "adapter")
    norm = dict(tiny_llama().named_parameters())["model.norm.weight"].detach()[:4].tolist()
    (folder / "base_weights.json").write_text(json.dumps({"model.norm.weight": norm}))
    check_adapter(tiny_llama(), folder)
    (folder / "base_weights.json").write_text(json.dumps({"model.norm.weight": [2 * value for value in norm]}))
    with pytest.raises(AdapterError, match=r"for another model \(some-model\): model.norm.weight differs"):
        check_adapter(tiny_llama(), folder)


def test_an_adapter_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="no adapter in"):
        check_adapter(tiny_llama(), tmp_path)
    broken = save_adapter(tmp_path / "broken")
    whole = (broken / "adapter_model.safetensors").read_bytes()
    (broken / "adapter_model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(AdapterError, match="cannot be read"):
        check_adapter(tiny_llama(), broken)
    (broken / "adapter_config.json").write_text("{")
    with pytest.raises(AdapterError, match="cannot be read"):
        check_adapter(tiny_llama(), broken)


def test_a_model_without_chat_template(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="no chat template"):
        choose_model(str(save_model(tmp_path, template=False)))


def test_no_such_model(tmp_path: Path) -> None:
    for spec in (str(tmp_path / "nothing"), str(tmp_path)):
        with pytest.raises(ModelError, match="cannot load a model from") as caught:
            choose_model(spec)
        assert "\n" not in str(caught.value)


def test_the_embedded_model_brings_its_adapter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "model")
    monkeypatch.setattr(models, "ensure_model", lambda: folder)
    monkeypatch.setattr(models, "ADAPTER", save_adapter(tmp_path / "adapter"))
    assert choose_model().adapter == str(tmp_path / "adapter")
    assert choose_model(adapter=NO_ADAPTER).adapter is None
    with pytest.raises(AdapterError, match="no adapter in"):
        choose_model(adapter=str(tmp_path / "nowhere"))


def test_hosted_models_are_named_by_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    for spec in ("openai:gpt-5", "anthropic:claude-sonnet-5"):
        choice = choose_model(spec)
        assert (choice.name, choice.ttft, choice.counts_exactly) == (spec, "stream", False)
        llm: Any = choice.for_arm("ours")
        assert llm.streaming and llm.stream_usage
    with pytest.raises(ModelError, match="cannot use 'nobody:model'"):
        choose_model("nobody:model")


def test_a_key_that_is_missing_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_ADMIN_KEY", raising=False)
    with pytest.raises(ModelError) as caught:
        choose_model("openai:gpt-5")
    assert "\n" not in str(caught.value)


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(ModelError, match="the model's API failed: APIConnectionError"):
        choose_model("http://127.0.0.1:9/v1")
    assert choose_model("http://127.0.0.1:9/v1#small").name == "small at http://127.0.0.1:9/v1"


def test_only_errors_of_api_clients_become_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    import openai

    with pytest.raises(ModelError, match="OpenAIError: first"), foreign_errors():
        raise openai.OpenAIError("first\nsecond")
    client: Any = ModuleType("anthropic")
    client.AnthropicError = type("AnthropicError", (Exception,), {})
    monkeypatch.delitem(sys.modules, "anthropic", raising=False)

    def load_and_fail() -> None:
        monkeypatch.setitem(sys.modules, "anthropic", client)
        raise client.AnthropicError("no key")

    with pytest.raises(ModelError, match="AnthropicError: no key"), foreign_errors():
        load_and_fail()
    with pytest.raises(ZeroDivisionError), foreign_errors():
        raise ZeroDivisionError
    with pytest.raises(UnsupportedModelError), foreign_errors():
        raise UnsupportedModelError("ours stays")

"""The training's own arithmetic: gradients by hand, peft's forward, branches, and rows in the library's bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from examples.support_agent.policy import Request, decide, read_field, shop_rules
from examples.support_agent.training.average import average
from examples.support_agent.training.curriculum import LEVELS, Curriculum
from examples.support_agent.training.fast_llama import FastLlama, LoraSettings
from examples.support_agent.training.fused_ops import CausalAttention, LoraLinear, RmsNorm, Rotate, SwiGlu
from examples.support_agent.training.rows import RowMaker, RowPlan
from examples.support_agent.training.train import layout, save_adapter
from examples.support_agent.worlds import Size, World, draw_world


class Letters:
    """A tokenizer whose tokens are characters, and its two control tokens."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [ord(letter) % 250 + 3 for letter in text]

    def convert_tokens_to_ids(self, tokens: str) -> int:
        return {"<|im_start|>": 1, "<|im_end|>": 2}[tokens]


def _gradients(function: Callable[..., Tensor], inputs: list[Tensor]) -> list[Tensor]:
    leaves = [value.clone().requires_grad_() for value in inputs]
    out = function(*leaves)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    (out * weight).sum().backward()
    return [out.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def _same(ours: Callable[..., Tensor], theirs: Callable[..., Tensor], inputs: list[Tensor]) -> None:
    for mine, reference in zip(_gradients(ours, inputs), _gradients(theirs, inputs), strict=True):
        torch.testing.assert_close(mine, reference, atol=2e-4, rtol=2e-4)


def test_elementwise_gradients() -> None:
    torch.manual_seed(0)
    x, gain = torch.randn(40, 64), torch.rand(64)
    weight = torch.randn(96, 64)
    angles = torch.randn(40, 32).repeat(1, 2)
    cos, sin = angles.cos(), angles.sin()

    def swiglu(packed: Tensor) -> Tensor:
        gate, up = packed.chunk(2, 1)
        return functional.silu(gate) * up

    def our_norm(a: Tensor) -> Tensor:
        return RmsNorm.apply(a, gain, 1e-5)

    def norm(a: Tensor) -> Tensor:
        return functional.rms_norm(a, (64,), gain, 1e-5)

    def our_lora(a: Tensor, down: Tensor, up: Tensor) -> Tensor:
        return LoraLinear.apply(a, weight, down, up, None)

    def lora(a: Tensor, down: Tensor, up: Tensor) -> Tensor:
        return a @ weight.t() + (a @ down.t()) @ up.t()

    def our_turn(a: Tensor) -> Tensor:
        return Rotate.apply(a, cos, sin)

    def turn(a: Tensor) -> Tensor:
        return a * cos + torch.cat([-a[..., 32:], a[..., :32]], -1) * sin

    _same(SwiGlu.apply, swiglu, [x])
    _same(our_norm, norm, [x])
    _same(our_lora, lora, [x, torch.randn(8, 64), torch.randn(96, 8)])
    _same(our_turn, turn, [torch.randn(3, 40, 64)])


@pytest.mark.parametrize(("new", "total", "branches"), [(500, 700, 0), (300, 300, 40), (40, 90, 40)])
def test_attention_gradients(new: int, total: int, branches: int) -> None:
    torch.manual_seed(0)
    allowed = torch.ones(new, total, dtype=torch.bool).tril(total - new)
    mask = None
    if branches:
        allowed[-branches:, total // 2 : total - branches] = False
        mask = torch.where(allowed[-branches:], 0.0, float("-inf"))

    def reference(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        wide = (k.repeat_interleave(3, 0)[None], v.repeat_interleave(3, 0)[None])
        return functional.scaled_dot_product_attention(q[None], *wide, attn_mask=allowed)[0]

    def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return CausalAttention.apply(q, k, v, mask)

    _same(ours, reference, [torch.randn(6, new, 16), torch.randn(2, total, 16), torch.randn(2, total, 16)])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of three layers on disk."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=300,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=8,
        tie_word_embeddings=True,
    )
    folder = tmp_path_factory.mktemp("tiny")
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def _trained(folder: Path) -> FastLlama:
    """The tiny model with an adapter that does something."""
    model = FastLlama(folder, LoraSettings(rank=4, alpha=8, first_layer=1))
    for fused in (f for layer in model.layers[1:] for f in (layer.qkv, layer.out, layer.gate_up, layer.down)):
        for place in fused.places:
            torch.nn.init.normal_(fused.up.data[place], std=0.2)
    return model


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning")  # peft asks by the old name
def test_the_saved_adapter_means_the_same_to_peft(tiny: Path, tmp_path: Path) -> None:
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    model = _trained(tiny)
    save_adapter(model, tmp_path)
    base = transformers.AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    adapted = peft.PeftModel.from_pretrained(base, tmp_path)
    ids = torch.randint(0, 300, (60,))
    with torch.no_grad():
        ours = model(ids, torch.arange(60))
        theirs = adapted(ids[None]).logits[0].float()
        plain = FastLlama(tiny, LoraSettings(rank=4, alpha=8, first_layer=1))(ids, torch.arange(60))
    spread = (plain - theirs).abs().max()
    assert (ours - theirs).abs().max() < 0.2 * spread, "bfloat16 noise only, far below what the adapter does"


def test_a_branch_sees_the_trunk_before_it_and_itself(tiny: Path) -> None:
    model = _trained(tiny)
    maker = RowMaker(Letters(), random.Random(3))
    row = maker.draw(RowPlan(Size(topics=2, orders=1, prose=0.0, turns=3), tools=False, keep=0.0, branches=8))
    ids = torch.tensor(row.ids)
    positions, mask = layout(row)
    assert row.branches
    with torch.no_grad():
        for branch in row.branches[:4]:
            mixed = model(ids, torch.arange(branch.start, branch.stop), positions=positions, mask=mask)
            alone = torch.cat([ids[: branch.point], ids[branch.start : branch.stop]])
            straight = model(alone, torch.arange(branch.point, alone.shape[0]))
            torch.testing.assert_close(mixed, straight, atol=0.06, rtol=0.05)


def test_a_head_without_a_graph_gives_the_same_logits(tiny: Path) -> None:
    model = _trained(tiny)
    ids = torch.randint(0, 300, (90,))
    with torch.no_grad():
        whole = model(ids, torch.arange(60, 90))
        cut = model(ids, torch.arange(60, 90), head=50)
    torch.testing.assert_close(whole, cut, atol=0.06, rtol=0.05)


@pytest.mark.parametrize("seed", range(20))
def test_worlds_ask_what_their_rules_answer(seed: int) -> None:
    world = draw_world(random.Random(seed), Size(topics=5, orders=2, prose=0.2, turns=8))
    shop = world.shop
    for request in world.requests:
        shop = type(shop).model_validate(_patched(world, shop.model_dump(), request.patch))
        tool, arguments = world.answer(shop, request)
        rule = world.rules[request.topic]
        line = f'is "{read_field(shop, rule.field, request.order_id)}", call `{tool}`'
        assert f" {request.topic} request, if " in world.policy
        assert line in world.policy
        assert arguments["order_id"] in request.text
        assert ("town" in arguments) == (tool == "change_address")


def _patched(world: World, data: dict[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    from pkv_agents import apply_patch

    return apply_patch(type(world.shop).model_validate(data), patch).model_dump()


def test_the_shop_has_a_rule_for_every_value_of_its_script() -> None:
    from examples.support_agent.scenario import TURNS, initial_state
    from pkv_agents import apply_patch

    shop, rules = initial_state(), shop_rules()
    assert len(rules) == 12
    for turn in TURNS:
        shop = apply_patch(shop, turn.outside)
        request = Request({}, turn.topic, turn.order_id, turn.text, turn.town)
        rule = rules[turn.topic]
        assert read_field(shop, rule.field, turn.order_id) in dict(rule.actions)
        decide(rules, shop, request)


def test_the_curriculum_goes_up_when_mastered_and_in_time() -> None:
    curriculum = Curriculum.start()
    for _ in range(30):
        curriculum.update([500.0] + [0.0] * (LEVELS - 1), [500.0] + [0.0] * (LEVELS - 1), 0.01)
    assert curriculum.level == 1, "one level mastered is one level up"
    for _ in range(LEVELS):
        curriculum.update([0.0] * LEVELS, [100.0] * LEVELS, 0.99)
    assert curriculum.level == LEVELS - 1


def test_the_mean_of_adapters_is_one_between_them(tmp_path: Path) -> None:
    files = {tmp_path / "a": torch.tensor([1.0, 8.0]), tmp_path / "b": torch.tensor([5.0, 0.0])}
    for file, tensor in files.items():
        save_file({"x": tensor.to(torch.bfloat16)}, file)
    mean = average(dict(zip(files, (1.0, 3.0), strict=True)))
    assert mean["x"].tolist() == [4.0, 2.0]
    save_file({"y": torch.zeros(2)}, tmp_path / "c")
    with pytest.raises(ValueError, match="other layers"):
        average({tmp_path / "a": 1.0, tmp_path / "c": 1.0})

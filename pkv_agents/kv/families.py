"""What is known of each model family's positions, as data.

A family stands here when it has passed the float32 oracle of `tests/kv/test_rotary_oracle.py`: keys computed at
position 0 and turned to p equal keys computed at p. A model of a family that does not stand here, or of one that cannot
work, is refused with the reason. The row says what to expect; `SegmentModel` proves it again on the model.

| layout | which two numbers of a key turn together |
|---|---|
| half | `i` and `i + rotated / 2` (Llama) |
| interleaved | `2 i` and `2 i + 1` (GPT-J) |

| table | what the model's rotary module returns |
|---|---|
| doubled | cos and sin, each twice over: `[a b c a b c]` |
| repeated | cos and sin, each number twice: `[a a b b c c]` |
| pairs | cos and sin, one number a pair |
| complex | one complex number a pair |
| sincos | sin and cos, one number a pair |

Only the first `2 * pairs` numbers of a head turn; the rest have no position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Layout = Literal["half", "interleaved"]
Table = Literal["doubled", "repeated", "pairs", "complex", "sincos"]


@dataclass(frozen=True, slots=True)
class Family:
    """How one family of models encodes positions in what it caches.

    Attributes:
        name: `model_type` of the text model's configuration.
        layout: Which two numbers of a head turn together.
        table: What the rotary module returns.
        rotated: Which of the two cached tensors carries the position (multi-head latent attention: the values).
        without_position: What tells the layers that have no position: "" if there are none, `no_rope_layers` for that
            list of the configuration, `full_attention` for that kind of layer.
        multimodal: Whether the text part of a model that also takes images is meant.
        note: What holds for it beside.
        refusal: Why it cannot be used; empty if it can.
    """

    name: str
    layout: Layout = "half"
    table: Table = "doubled"
    rotated: Literal["keys", "values"] = "keys"
    without_position: Literal["", "no_rope_layers", "full_attention"] = ""
    multimodal: bool = False
    note: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class RopeKind:
    """One kind of rotary positions, whatever the family.

    Attributes:
        name: `rope_type` of the configuration's rotary parameters; for M-RoPE, which is a property beside it, `mrope`.
        note: What holds for it beside.
        refusal: Why it cannot be used; empty if it can.
    """

    name: str
    note: str = ""
    refusal: str = ""


_BY_LENGTH = "its cached keys depend on the length of the sequence"

_ROPES = {
    kind.name: kind
    for kind in (
        RopeKind("default"),
        RopeKind("dynamic", refusal=_BY_LENGTH),
        RopeKind("linear"),
        RopeKind("llama3"),
        RopeKind("longrope", refusal=_BY_LENGTH),
        RopeKind("mrope", note="in the families for images; segments only, the axes move together"),
        RopeKind("yarn", note="cos and sin are scaled; keys are turned with unit tables"),
    )
}

_WINDOW = "layers with a window keep all keys; the mask enforces the window"

_PLANE = "text and images of one frame: the three axes move together"

_SUPPORTED = (
    *(Family(name) for name in "falcon gemma granite llama mixtral olmo olmo2 olmoe qwen2 qwen2_moe qwen3".split()),
    Family("qwen3_moe"),
    *(Family(name, note=_WINDOW) for name in ("gemma2", "mistral", "starcoder2")),
    *(Family(name, note="part of each head turns") for name in "gpt_neox nemotron persimmon phi stablelm".split()),
    Family("phi3", note="part of each head may turn; with longrope it is refused"),
    Family("gemma3_text", note=f"frequencies by kind of layer; {_WINDOW}"),
    Family("gpt_oss", table="pairs", note=f"cos and sin are scaled (yarn); {_WINDOW}"),
    Family("smollm3", without_position="no_rope_layers", note="some layers have no position"),
    Family("cohere", "interleaved", "repeated"),
    Family("cohere2", "interleaved", "repeated", without_position="full_attention", note=_WINDOW),
    Family(
        "llama4_text",
        "interleaved",
        "complex",
        without_position="no_rope_layers",
        note="up to one attention chunk: beyond it chunks and temperatures depend on the absolute position",
    ),
    *(Family(name, "interleaved") for name in ("ernie4_5", "helium")),
    *(Family(name, "interleaved", note="part of each head turns") for name in ("glm", "glm4")),
    Family("gptj", "interleaved", "sincos", note="part of each head turns"),
    Family("deepseek_v2", "interleaved", "complex", "values", note="latents without position, beside one rotated key"),
    Family("deepseek_v3", rotated="values", note="latents without position, beside one rotated key"),
    *(Family(name, multimodal=True, note=_PLANE) for name in ("qwen2_5_vl_text", "qwen3_vl_text")),
)

_RECURRENT = "it keeps a recurrent state, which cannot be cut, moved or joined"
_REFUSED = (
    Family("bloom", refusal="its positions are ALiBi, added to the attention and not to what is cached"),
    Family("gpt2", refusal="its positions are absolute and learnt, added before the first layer"),
    Family("hunyuan_v1_dense", refusal="it normalises keys after it has turned them, with a weight for each number"),
    *(Family(name, refusal=_RECURRENT) for name in "falcon_mamba mamba mamba2 rwkv recurrent_gemma xlstm".split()),
    *(Family(name, refusal=f"in some layers {_RECURRENT}") for name in ("jamba", "qwen3_5_text", "qwen3_next")),
)

_TABLE = {family.name: family for family in sorted((*_SUPPORTED, *_REFUSED), key=lambda family: family.name)}


def support_table() -> tuple[Family, ...]:
    """Every family that is known, supported or refused with the reason, by name."""
    return tuple(_TABLE.values())


def rope_table() -> tuple[RopeKind, ...]:
    """Every kind of rotary positions that is known, supported or refused with the reason, by name."""
    return tuple(_ROPES.values())


def rope_refusal(name: str) -> str:
    """Why a kind of rotary positions cannot be used; empty if it can."""
    kind = _ROPES.get(name)
    return f"rope_type {name!r} is not known to the engine" if kind is None else kind.refusal


def family_of(model_type: str) -> Family:
    """The row of a family; of one that is not known, a row that refuses it."""
    unknown = "its family is not known to the engine, so nothing says how its keys carry their position"
    return _TABLE.get(model_type, Family(model_type, refusal=unknown))

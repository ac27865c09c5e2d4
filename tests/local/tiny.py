"""Tiny models and a real little tokenizer, built here: what the local engine is tested on."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pkv_agents.local import LocalModel

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

PERMISSIVE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LATE_RAISES = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('System message must be at the beginning.') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LATE_DROPPED = (
    "{% for m in messages %}{% if m.role != 'system' or loop.first %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HOISTING = (
    "<|im_start|>system\n{% for m in messages if m.role == 'system' %}{{ m.content }}\n{% endfor %}<|im_end|>\n"
    "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
STRICT = (
    "{% if messages[0].role == 'system' %}{% set head = messages[0].content + '\n' %}{% set rest = messages[1:] %}"
    "{% else %}{% set head = '' %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
    "{% if m.role == 'user' %}<|im_start|>user\n"
    "{% if loop.first %}{{ head }}{% endif %}{{ m.content | trim }}<|im_end|>\n"
    "{% elif m.role == 'assistant' %}<|im_start|>assistant\n{{ m.content | trim }}<|im_end|>\n"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINK_MOVES = (
    "{% set last = namespace(user=-1) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set last.user = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and loop.index0 < last.user and '</think>' in m.content %}"
    "{{ m.content.split('</think>')[-1].lstrip('\n') }}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_TOOL_ROLE = (
    "{% for m in messages %}{% if m.role not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('Unknown role: ' + m.role) }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {
    "permissive": PERMISSIVE,
    "late_raises": LATE_RAISES,
    "late_dropped": LATE_DROPPED,
    "hoisting": HOISTING,
    "strict": STRICT,
    "think_moves": THINK_MOVES,
    "no_tool_role": NO_TOOL_ROLE,
    "no_system": NO_SYSTEM,
}

_CORPUS = [
    'You are a shop agent. {"name":"cancel_order","arguments":{"order_id":"K417"}}',
    "customer.tier: gold\n\norders[K417].status: delivered\n\nPlease cancel the order and send it to Bern.",
    "user assistant system tool\n\nanswer the question, thanks\n\n",
] * 20


@cache
def _backend() -> str:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=CONTROL, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(_CORPUS, trainer)
    return backend.to_str()


def tiny_tokenizer(template: str | None = PERMISSIVE) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of some 400 tokens with chat marks."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_backend()), eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.chat_template = template
    return tokenizer


def tiny_config(**changes: Any) -> LlamaConfig:
    """A two-layer model with grouped keys; its logits are wider than the vocabulary."""
    settings: dict[str, Any] = {
        "vocab_size": 448,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 4096,
        "initializer_range": 0.3,
        "eos_token_id": 2,
        "bos_token_id": None,
        "pad_token_id": None,
    }
    return LlamaConfig(**{**settings, **changes})


def tiny_llama(seed: int = 0, **changes: Any) -> LlamaForCausalLM:
    """A random model in evaluation mode, float32."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(tiny_config(**changes)).eval()


@cache
def _shared_llama() -> LlamaForCausalLM:
    return tiny_llama()


def tiny_model(template: str = PERMISSIVE, *, cache_bytes: int = 64 << 20) -> LocalModel:
    """A LocalModel on the shared random model."""
    return LocalModel(_shared_llama(), tiny_tokenizer(template), cache_bytes=cache_bytes)

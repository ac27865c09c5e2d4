"""A tiny random Llama with a byte-level tokenizer and a ChatML template: everything real but the sense."""

from __future__ import annotations

from functools import cache

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pkv_agents.local import LocalModel

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _tokenizer(template: str) -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={char: index for index, char in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True) for token in ("<|im_start|>", "<|im_end|>")])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>")
    tokenizer.chat_template = template
    return tokenizer


def _id_of(tokenizer: PreTrainedTokenizerFast, token: str) -> int:
    """The id of a special token."""
    return tokenizer.get_vocab()[token]


@cache
def parts(template: str = TEMPLATE) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """The model and its tokenizer, with a chat template."""
    tokenizer = _tokenizer(template)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        eos_token_id=_id_of(tokenizer, "<|im_end|>"),
        pad_token_id=None,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config).eval(), tokenizer


def tiny_model() -> LocalModel:
    """A fresh engine, its cache empty, over the same weights."""
    return LocalModel(*parts())

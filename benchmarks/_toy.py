"""A random little chat model that reads bytes: it shows that a benchmark runs, its numbers mean nothing."""

from __future__ import annotations

from typing import Any, cast

TOY: dict[str, Any] = {
    "vocab_size": 320,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 16384,
}
_CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def toy_chat_model() -> tuple[object, object]:
    """The model and its tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    cast("Any", backend).add_special_tokens(_CONTROL)
    tokenizer = cast("Any", PreTrainedTokenizerFast)(
        tokenizer_object=backend, bos_token=_CONTROL[1], eos_token=_CONTROL[2], pad_token=_CONTROL[0]
    )
    tokenizer.chat_template = _TEMPLATE
    return cast("Any", LlamaForCausalLM)(LlamaConfig(**TOY)).eval(), tokenizer

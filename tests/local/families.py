"""Chat templates in the style of well-known families, each with the habits that its family is known for."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.local.texts_plain import COMMAND_R, GEMMA, LLAMA_2, LLAMA_3_1, MISTRAL, PHI_3, SMOLLM2
from tests.local.texts_thinking import DEEPSEEK_R1, HARMONY, PLAIN_ASK, QWEN_2_5, QWEN_3, QWEN_3_LATE_RAISES

CHATML = {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
SENTENCE = {"bos_token": "<s>", "eos_token": "</s>"}

_TURNS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" + PLAIN_ASK
NEEDS_SYSTEM = (
    "{% if messages[0].role != 'system' %}{{ raise_exception('A system message must come first') }}{% endif %}" + _TURNS
)
CLOCK_WITH_MINUTES = "<|im_start|>time {{ strftime_now('%H:%M') }}<|im_end|>\n" + _TURNS
BEFORE_ASSISTANT = (
    "{% for m in messages %}{% if m.role == 'system' and not loop.first and (messages[loop.index0 - 1].role == "
    "'assistant' or (not loop.last and messages[loop.index0 + 1].role != 'assistant')) %}"
    "{{ raise_exception('A system turn stands between a user and an assistant turn') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" + PLAIN_ASK
)
LAST_IS_SPECIAL = (
    "{% for m in messages %}<|im_start|>{{ m.role }}{{ ' (newest)' if loop.last else '' }}\n"
    "{{ m.content }}<|im_end|>\n{% endfor %}" + PLAIN_ASK
)


@dataclass(frozen=True)
class Family:
    """A template and what must be found in it.

    Attributes:
        text: The template.
        late: What becomes of a late system turn.
        codes: Every finding, in order.
        append_only: Whether requests only append.
        best: The form in which an erratum after a tool result keeps most.
        clock: The finest unit of time in the prompt.
        tokens: The special tokens.
    """

    text: str
    late: str
    codes: str
    append_only: bool = True
    best: str = "tool_suffix"
    clock: str = ""
    tokens: dict[str, str] = field(default_factory=lambda: dict(SENTENCE))


_NO_TOOLS = "tools_ignored calls_dropped"
_QWEN_3_CODES = "thoughts_dropped thinking_switch tools_behind_system results_merged"

FAMILIES = {
    "smollm2": Family(SMOLLM2, "kept", f"default_system {_NO_TOOLS}", tokens=CHATML),
    "llama-2": Family(
        LLAMA_2,
        "raises",
        "tool_role_refused users_alternate late_system_refused no_generation_prompt contents_trimmed "
        f"{_NO_TOOLS} bos_written",
    ),
    "llama-3.1": Family(
        LLAMA_3_1,
        "kept",
        "contents_trimmed tools_in_first_user parallel_calls_refused clock bos_written",
        clock="day",
    ),
    "qwen-2.5": Family(QWEN_2_5, "kept", "default_system tools_behind_system results_merged", tokens=CHATML),
    "qwen-3": Family(QWEN_3, "kept", _QWEN_3_CODES, append_only=False, tokens=CHATML),
    "qwen-3-late-raises": Family(
        QWEN_3_LATE_RAISES, "raises", f"late_system_refused {_QWEN_3_CODES}", append_only=False, tokens=CHATML
    ),
    "mistral": Family(
        MISTRAL,
        "raises",
        "system_moves tool_role_refused users_alternate late_system_refused no_generation_prompt tools_move "
        "bos_written",
    ),
    "harmony": Family(
        HARMONY,
        "dropped",
        "tool_role_refused late_system_dropped reasoning_dropped answer_marked tools_behind_system "
        "parallel_calls_refused clock",
        clock="day",
    ),
    "gemma": Family(
        GEMMA,
        "raises",
        "system_refused tool_role_refused users_alternate late_system_refused contents_trimmed "
        f"{_NO_TOOLS} bos_written",
    ),
    "deepseek-r1": Family(
        DEEPSEEK_R1,
        "rewrites",
        f"late_system_hoisted prompt_rewritten thoughts_stripped {_NO_TOOLS} bos_written",
        append_only=False,
        best="raw_ids",
    ),
    "phi-3": Family(PHI_3, "kept", f"tool_role_refused {_NO_TOOLS}"),
    "command-r": Family(
        COMMAND_R, "kept", "default_system contents_trimmed tools_behind_system calls_rewritten bos_written"
    ),
    "needs-system": Family(NEEDS_SYSTEM, "kept", f"system_required {_NO_TOOLS}"),
    "clock-with-minutes": Family(CLOCK_WITH_MINUTES, "kept", f"{_NO_TOOLS} clock", clock="minute"),
    "before-assistant": Family(BEFORE_ASSISTANT, "kept", f"late_system_slot {_NO_TOOLS}"),
    "last-is-special": Family(
        LAST_IS_SPECIAL,
        "rewrites",
        f"late_system_rewrites turns_move {_NO_TOOLS}",
        append_only=False,
        best="raw_ids",
    ),
}

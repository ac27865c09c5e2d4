"""Chat templates in the style of well-known families, each with the habits that its family is known for."""

from __future__ import annotations

from dataclasses import dataclass, field

PLAIN_ASK = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
CHATML = {"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
SENTENCE = {"bos_token": "<s>", "eos_token": "</s>"}

# The head of the embedded model's own template: a system text of its own where there is none, and nothing more.
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

LLAMA_2 = """
{%- if messages[0].role == 'system' -%}
    {%- set rest = messages[1:] -%}
    {%- set lead = '<<SYS>>\\n' + messages[0].content + '\\n<</SYS>>\\n\\n' -%}
{%- else -%}
    {%- set rest = messages -%}
    {%- set lead = '' -%}
{%- endif -%}
{%- for m in rest -%}
    {%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}
        {{- raise_exception('Roles must alternate: user, assistant, user, assistant.') -}}
    {%- endif -%}
    {%- if m.role == 'user' -%}
        {{- bos_token + '[INST] ' + (lead if loop.first else '') + (m.content | trim) + ' [/INST]' -}}
    {%- elif m.role == 'assistant' -%}
        {{- ' ' + (m.content | trim) + ' ' + eos_token -}}
    {%- else -%}
        {{- raise_exception('Only user and assistant turns follow the first.') -}}
    {%- endif -%}
{%- endfor -%}
"""

LLAMA_3_1 = """
{{- bos_token }}
{%- if date_string is not defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now('%d %b %Y') %}
    {%- else %}
        {%- set date_string = '26 Jul 2024' %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}
{{- 'Today Date: ' + date_string + '\\n\\n' + system + '<|eot_id|>' }}
{%- if tools %}
    {%- if messages | length == 0 %}
        {{- raise_exception('There is no first user message to put the tools into.') }}
    {%- endif %}
    {%- set first = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\nThese functions can be called:\\n\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) + '\\n\\n' }}
    {%- endfor %}
    {{- first + '<|eot_id|>' }}
{%- endif %}
{%- for m in messages %}
    {%- if m.tool_calls %}
        {%- if m.tool_calls | length != 1 %}
            {{- raise_exception('This model only supports single tool-calls at once!') }}
        {%- endif %}
        {%- set call = m.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
        {{- '{"name": "' + call.name + '", "parameters": ' + (call.arguments | tojson) + '}<|eot_id|>' }}
    {%- elif m.role == 'tool' or m.role == 'ipython' %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' + m.content + '<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + (m.content | trim) + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

_QWEN_HEAD = """
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- '# Tools\\n<tools>' }}
    {%- for tool in tools %}
        {{- '\\n' + (tool | tojson) }}
    {%- endfor %}
    {{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
DEFAULT
{%- endif %}
"""
_QWEN_CALLS = """
        {%- for call in m.tool_calls or [] %}
            {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif m.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
"""

QWEN_2_5 = (
    _QWEN_HEAD.replace(
        "DEFAULT", "{%- else %}\n    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}"
    )
    + """
{%- for m in messages %}
    {%- if m.role == 'user' or (m.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
    {%- elif m.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' + m.content }}
"""
    + _QWEN_CALLS
    + PLAIN_ASK
)

_QWEN_THINKING = """
{%- set last = namespace(query=messages | length - 1, looking=true) %}
{%- for m in messages[::-1] %}
    {%- if last.looking and m.role == 'user' and not m.content.startswith('<tool_response>') %}
        {%- set last.looking = false %}
        {%- set last.query = messages | length - 1 - loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- if m.role == 'user' or (m.role == 'system' and not loop.first) %}
        LATE
        {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
    {%- elif m.role == 'assistant' %}
        {%- set content = m.content %}
        {%- set thoughts = '' %}
        {%- if m.reasoning_content is string %}
            {%- set thoughts = m.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > last.query and (loop.last or thoughts) %}
            {{- '<think>\\n' + thoughts + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- content }}
"""
_QWEN_ASK = """
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
QWEN_3 = _QWEN_HEAD.replace("DEFAULT", "") + _QWEN_THINKING.replace("LATE", "") + _QWEN_CALLS + _QWEN_ASK
QWEN_3_LATE_RAISES = (
    _QWEN_HEAD.replace("DEFAULT", "")
    + _QWEN_THINKING.replace(
        "LATE",
        "{%- if m.role == 'system' %}{{- raise_exception('System message must be at the beginning.') }}{%- endif %}",
    )
    + _QWEN_CALLS
    + _QWEN_ASK
)

# The system text and the tools stand beside the newest user turn.
MISTRAL = """
{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system = '' %}
    {%- set rest = messages %}
{%- endif %}
{%- set ns = namespace(index=0, last=-1) %}
{%- for m in rest %}
    {%- if m.role == 'user' %}
        {%- set ns.last = loop.index0 %}
    {%- endif %}
    {%- if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}
        {%- if (m.role == 'user') != (ns.index % 2 == 0) %}
            {{- raise_exception('After the optional system message, roles must alternate user/assistant') }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for m in rest %}
    {%- if m.role == 'user' %}
        {%- if tools and loop.index0 == ns.last %}
            {{- '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}
        {%- endif %}
        {%- if system and loop.index0 == ns.last %}
            {{- '[INST]' + system + '\\n\\n' + m.content + '[/INST]' }}
        {%- else %}
            {{- '[INST]' + m.content + '[/INST]' }}
        {%- endif %}
    {%- elif m.tool_calls %}
        {{- '[TOOL_CALLS][' }}
        {%- for call in m.tool_calls %}
            {{- {'name': call.function.name, 'arguments': call.function.arguments, 'id': call.id} | tojson }}
            {{- ', ' if not loop.last else ']' + eos_token }}
        {%- endfor %}
    {%- elif m.role == 'assistant' %}
        {{- m.content + eos_token }}
    {%- elif m.role == 'tool' %}
        {{- '[TOOL_RESULTS]' + ({'content': m.content, 'call_id': m.tool_call_id} | tojson) + '[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception('Only user, assistant and tool roles are supported') }}
    {%- endif %}
{%- endfor %}
"""

# The first system turn becomes a developer turn, a later one falls through; a result needs a call before it.
HARMONY = """
{{- '<|start|>system<|message|>Current date: ' + strftime_now('%Y-%m-%d') + '<|end|>' }}
{%- set rest = messages[1:] if messages[0].role in ['system', 'developer'] else messages %}
{%- if messages[0].role in ['system', 'developer'] or tools %}
    {{- '<|start|>developer<|message|># Instructions\\n\\n' }}
    {{- messages[0].content if messages[0].role in ['system', 'developer'] else '' }}
    {%- if tools %}
        {{- '\\n\\n# Tools\\n\\nnamespace functions {\\n' }}
        {%- for tool in tools %}
            {{- 'type ' + tool.function.name + ' = () => any;\\n' }}
        {%- endfor %}
        {{- '}' }}
    {%- endif %}
    {{- '<|end|>' }}
{%- endif %}
{%- set called = namespace(name=none) %}
{%- for m in rest %}
    {%- if m.role == 'assistant' and m.tool_calls %}
        {%- if m.tool_calls | length != 1 %}
            {{- raise_exception('One assistant turn holds one tool call.') }}
        {%- endif %}
        {%- set called.name = m.tool_calls[0].function.name %}
        {{- '<|start|>assistant to=functions.' + called.name + '<|channel|>commentary json<|message|>' }}
        {{- (m.tool_calls[0].function.arguments | tojson) + '<|call|>' }}
    {%- elif m.role == 'assistant' %}
        {%- if m.thinking and loop.last %}
            {{- '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}
        {%- endif %}
        {%- set called.name = none %}
        {{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}
    {%- elif m.role == 'tool' %}
        {%- if called.name is none %}
            {{- raise_exception('A tool turn needs an assistant turn with a tool call before it.') }}
        {%- endif %}
        {{- '<|start|>functions.' + called.name + ' to=assistant<|message|>' + (m.content | tojson) + '<|end|>' }}
    {%- elif m.role == 'user' %}
        {{- '<|start|>user<|message|>' + m.content + '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant' }}
{%- endif %}
"""

GEMMA = """
{{- bos_token }}
{%- if messages[0].role == 'system' %}
    {{- raise_exception('System role not supported') }}
{%- endif %}
{%- for m in messages %}
    {%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}
    {{- (m.content | trim) + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<start_of_turn>model\\n' }}
{%- endif %}
"""

# All system turns are gathered at the top; thoughts never come back; the model is asked to begin by thinking.
DEEPSEEK_R1 = """
{%- set ns = namespace(system='') %}
{%- for m in messages if m.role == 'system' %}
    {%- set ns.system = ns.system + m.content %}
{%- endfor %}
{{- bos_token + ns.system }}
{%- for m in messages %}
    {%- if m.role == 'user' %}
        {{- '<|User|>' + m.content }}
    {%- elif m.role == 'assistant' %}
        {{- '<|Assistant|>' + m.content.split('</think>')[-1] + '<|end_of_sentence|>' }}
    {%- elif m.role == 'tool' %}
        {{- '<|tool_output|>' + m.content + '<|tool_end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|Assistant|><think>\\n' }}
{%- endif %}
"""

PHI_3 = """
{%- for m in messages %}
    {%- if m.role == 'system' %}
        {{- '<|system|>\\n' + m.content + '<|end|>\\n' }}
    {%- elif m.role == 'user' %}
        {{- '<|user|>\\n' + m.content + '<|end|>\\n' }}
    {%- elif m.role == 'assistant' %}
        {{- '<|assistant|>\\n' + m.content + '<|end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\\n' }}
{%- endif %}
"""

# A preamble of its own; arguments are written with sorted keys and indentation.
COMMAND_R = """
{{- bos_token }}
{%- if messages[0].role == 'system' %}
    {%- set system = messages[0].content %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set system = 'You are a large language model that helps.' %}
    {%- set rest = messages %}
{%- endif %}
{{- '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|># Preamble\\n' + system }}
{%- for tool in tools or [] %}
    {{- '\\n- ' + tool.function.name }}
{%- endfor %}
{{- '<|END_OF_TURN_TOKEN|>' }}
{%- for m in rest %}
    {%- if m.role == 'user' %}
        {{- '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + m.content | trim + '<|END_OF_TURN_TOKEN|>' }}
    {%- elif m.role == 'system' %}
        {{- '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + m.content | trim + '<|END_OF_TURN_TOKEN|>' }}
    {%- elif m.role == 'assistant' %}
        {{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' + m.content | trim }}
        {%- for call in m.tool_calls or [] %}
            {{- 'Action: ' + ({'tool_name': call.function.name} | tojson) }}
            {{- call.function.arguments | tojson(indent=4, sort_keys=true) }}
        {%- endfor %}
        {{- '<|END_OF_TURN_TOKEN|>' }}
    {%- elif m.role == 'tool' %}
        {{- '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><results>' + m.content + '</results><|END_OF_TURN_TOKEN|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}
{%- endif %}
"""

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

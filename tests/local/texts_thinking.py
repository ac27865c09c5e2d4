"""Chat templates in the style of families whose answers have thoughts, and of Qwen 2.5, with which they share most."""

from __future__ import annotations

PLAIN_ASK = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

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

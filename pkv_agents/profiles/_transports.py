"""Facts of transports: what each API's cache and messages allow, for each kind of model that it serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ._models import AS_OF, CLAUDE, DEEPSEEK, GEMINI, GPT, GPT_BREAKPOINTS, LATE_SYSTEM, NOVA
from ._record import Profile

GENERIC = Profile("generic", as_of=AS_OF)
LOCAL = Profile(
    "local",
    block_tokens=1,
    min_cacheable_tokens=1,
    read_multiplier=0.0,
    as_of=AS_OF,
    automatic=True,
    sorts_arguments=False,
)

OPENAI = Profile(
    "openai",
    carrier="system",
    min_cacheable_tokens=1024,
    block_tokens=128,
    max_breakpoints=0,
    ttl_seconds=300,
    read_multiplier=0.1,  # 0.25 to 0.5 on models before GPT-5
    write_multiplier=1.0,
    as_of=AS_OF,
    automatic=True,
    cold_after_seconds=86400,  # what retention may be; a family that is kept in memory only has less
    cache_key="prompt_cache_key",
    cache_key_rpm=15,
    allowed_tools=True,
    source="https://developers.openai.com/api/docs/guides/prompt-caching",
)
OPENAI_5_6 = replace(
    OPENAI,
    name="openai-5.6",
    block_tokens=None,
    max_breakpoints=4,
    implicit_breakpoint=True,
    ttl_seconds=1800,  # at least; a marker may ask for more where the API offers it, which we leave alone
    write_multiplier=1.25,
    marker="prompt_cache_breakpoint",
    cold_after_seconds=None,
)

ANTHROPIC = Profile(
    "anthropic",
    max_breakpoints=4,
    lookback_blocks=20,
    ttl_seconds=300,
    read_multiplier=0.1,
    write_multiplier=1.25,
    as_of=AS_OF,
    automatic=False,
    marker="cache_control",
    ttls=("5m", "1h"),
    write_multiplier_1h=2.0,
    cold_after_seconds=300,
    source="https://platform.claude.com/docs/en/build-with-claude/prompt-caching",
)
ANTHROPIC_MID_SYSTEM = replace(
    ANTHROPIC,
    name="anthropic-mid-system",
    carrier="system",
    system_slot="before_assistant",
    tool_changes="tool_addition",
    source="https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages",
)

# Amazon Bedrock's Converse API: `system` is a field of the request, so a late system message has no place.
_CONVERSE = replace(
    GENERIC, name="bedrock", source="https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html"
)
# An hour is offered from Claude 4.5 on.
_CONVERSE_CLAUDE = replace(ANTHROPIC, name="bedrock-claude", marker="cache_point", source=_CONVERSE.source)
_CONVERSE_NOVA = replace(
    _CONVERSE,
    name="bedrock-nova",
    max_breakpoints=4,
    ttl_seconds=300,
    automatic=False,
    marker="cache_point",
    ttls=("5m",),
    cold_after_seconds=300,
)

# Google: system instructions are a field of the request. Nothing is promised of an implicit hit.
_GEMINI = Profile(
    "gemini",
    max_breakpoints=0,
    read_multiplier=0.1,
    write_multiplier=1.0,
    as_of=AS_OF,
    automatic=True,
    source="https://ai.google.dev/gemini-api/docs/caching",
)
# Explicit cached content: a named object of the server's that holds system and tools; its default lifetime is an hour.
# A request that uses it may not send them again, and the tail is cached implicitly as before.
_GEMINI_EXPLICIT = replace(_GEMINI, name="gemini-explicit", ttl_seconds=3600)

# DeepSeek: on disk, by prefixes that end where a request or an answer ended; kept for hours to days. Its chat template
# gathers system messages at the front. The price of a read differs by model; this is V3.2's.
_DEEPSEEK = Profile(
    "deepseek",
    block_tokens=64,
    max_breakpoints=0,
    read_multiplier=0.1,
    write_multiplier=1.0,
    as_of=AS_OF,
    automatic=True,
    source="https://api-docs.deepseek.com/guides/kv_cache",
)

# OpenRouter: the request has OpenAI's form; what becomes of a late system message depends on who serves it. A session
# id keeps a conversation at one provider. Markers are translated.
_ROUTER_SOURCE = "https://openrouter.ai/docs/guides/best-practices/prompt-caching"


def _routed(profile: Profile) -> Profile:
    return replace(
        profile,
        name=f"openrouter-{profile.name}",
        carrier="user_suffix",
        system_slot="anywhere",
        marker=None if profile.marker is None else "cache_control",
        cache_key="session_id",
        cache_key_rpm=None,
        tool_changes=None,
        allowed_tools=False,
        source=_ROUTER_SOURCE,
    )


_ROUTER = replace(GENERIC, name="openrouter", cache_key="session_id", source=_ROUTER_SOURCE)

# Servers that one runs oneself. What their chat template does with a late system message is not known unless probed.
# A prefix stays until its room is needed: when it is gone is never certain.
_SERVER = replace(GENERIC, automatic=True, sorts_arguments=False)
_VLLM = replace(
    _SERVER, name="vllm", block_tokens=16, source="https://docs.vllm.ai/en/latest/features/automatic_prefix_caching/"
)
_SGLANG = replace(_SERVER, name="sglang", block_tokens=1, source="https://docs.sglang.ai")
_LLAMA_CPP = replace(
    _SERVER, name="llama.cpp", block_tokens=1, source="https://github.com/ggml-org/llama.cpp/tree/master/tools/server"
)
_OLLAMA = replace(_LLAMA_CPP, name="ollama", source="https://docs.ollama.com")


@dataclass(frozen=True, slots=True)
class Transport:
    """What an API allows for each kind of model.

    Attributes:
        by_kind: The profile for each kind of model that it knows.
        other: The profile for any other model.
        any_model: Other models are nothing unusual here: no notice is due.
    """

    by_kind: Mapping[str, Profile]
    other: Profile = GENERIC
    any_model: bool = False


def _server(profile: Profile) -> Transport:
    return Transport({}, profile, any_model=True)


_OPENAI_CHAT = Transport({GPT_BREAKPOINTS: OPENAI_5_6, GPT: OPENAI})
_RESPONSES = Transport(
    {kind: replace(profile, tool_changes="additional_tools") for kind, profile in _OPENAI_CHAT.by_kind.items()}
)
_MESSAGES = Transport({LATE_SYSTEM: ANTHROPIC_MID_SYSTEM, CLAUDE: ANTHROPIC}, ANTHROPIC)
# Claude on Google Cloud, and on Bedrock by the Messages API: late system messages, but no word of late tools.
_CLOUD_CLAUDE = {LATE_SYSTEM: replace(ANTHROPIC_MID_SYSTEM, tool_changes=None), CLAUDE: ANTHROPIC}

TRANSPORTS: Mapping[str, Transport] = {
    "anthropic": _MESSAGES,
    "azure": _OPENAI_CHAT,
    "azure_responses": _OPENAI_CHAT,  # whether it takes late tools is not documented
    "bedrock": Transport({CLAUDE: _CONVERSE_CLAUDE, NOVA: _CONVERSE_NOVA}, _CONVERSE),
    "bedrock_messages": Transport(_CLOUD_CLAUDE, ANTHROPIC),
    "deepseek": Transport({DEEPSEEK: _DEEPSEEK}, _DEEPSEEK, any_model=True),
    "gemini": Transport({GEMINI: _GEMINI}, _GEMINI),
    "gemini_explicit": Transport({GEMINI: _GEMINI_EXPLICIT}, _GEMINI_EXPLICIT),
    "llama.cpp": _server(_LLAMA_CPP),
    "local": _server(LOCAL),
    "ollama": _server(_OLLAMA),
    "openai": _OPENAI_CHAT,
    "openai_compatible": Transport({}),  # somebody's server: nothing is known until its profile is given
    "openai_responses": _RESPONSES,
    "openrouter": Transport(
        {
            CLAUDE: _routed(ANTHROPIC),
            GPT_BREAKPOINTS: _routed(OPENAI_5_6),
            GPT: _routed(OPENAI),
            GEMINI: _routed(_GEMINI),
            DEEPSEEK: _routed(_DEEPSEEK),
        },
        _ROUTER,
    ),
    "sglang": _server(_SGLANG),
    "vertex": Transport({GEMINI: _GEMINI, **_CLOUD_CLAUDE}),
    "vllm": _server(_VLLM),
}

# Other spellings, mostly those of the frameworks.
ALIASES: Mapping[str, str] = {
    "amazon_bedrock": "bedrock",
    "anthropic_bedrock": "bedrock_messages",
    "azure_openai": "azure",
    "bedrock_converse": "bedrock",
    "google": "gemini",
    "google_genai": "gemini",
    "google_vertexai": "vertex",
    "llama_cpp": "llama.cpp",
    "llamacpp": "llama.cpp",
}

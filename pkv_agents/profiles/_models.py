"""Facts of model families, whichever API serves them."""

from __future__ import annotations

import re
from dataclasses import dataclass

AS_OF = "2026-11"

_ANTHROPIC = "https://platform.claude.com/docs/en/build-with-claude/prompt-caching"
_OPENAI = "https://developers.openai.com/api/docs/guides/prompt-caching"
_GEMINI = "https://ai.google.dev/gemini-api/docs/caching"
_BEDROCK = "https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html"
_DEEPSEEK = "https://api-docs.deepseek.com/guides/kv_cache"

LATE_SYSTEM, CLAUDE = "claude with late system messages", "claude"
GPT_BREAKPOINTS, GPT = "gpt with breakpoints", "gpt"
GEMINI, NOVA, DEEPSEEK = "gemini", "nova", "deepseek"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a family of models.

    Attributes:
        kinds: What it is to a transport, the most particular word first: a transport that does not know the first
            goes by the next.
        min_cacheable_tokens: A shorter prefix is not cached.
        cold_after_seconds: After so long without a request its prefixes are certainly gone.
        late_tools: It takes tools that are added in the middle of a conversation, where its API has a way.
        as_of: When that was true.
        source: Where it is documented.
    """

    kinds: tuple[str, ...]
    min_cacheable_tokens: int | None = None
    cold_after_seconds: int | None = None
    late_tools: bool = False
    as_of: str = AS_OF
    source: str = ""


_LATE = (LATE_SYSTEM, CLAUDE)
_HOUR, _DAY = 3600, 86400


def _claude(minimum: int | None, kinds: tuple[str, ...] = (CLAUDE,)) -> ModelFacts:
    return ModelFacts(kinds, minimum, late_tools=kinds == _LATE, source=_ANTHROPIC)


def _gpt(cold_after_seconds: int | None, kinds: tuple[str, ...] = (GPT,), *, late_tools: bool = False) -> ModelFacts:
    return ModelFacts(kinds, cold_after_seconds=cold_after_seconds, late_tools=late_tools, source=_OPENAI)


# The first family that matches the name's beginning counts.
_FAMILIES: tuple[tuple[str, ModelFacts], ...] = (
    # Whether Sonnet 5 takes late system messages is told both ways; Anthropic's page does not list it.
    # The minimum of the 5.1 and 5.5 models is taken to be that of their families.
    (r"claude-(?:opus|fable|mythos)-5(?:-[15])?", _claude(512, _LATE)),
    (r"claude-opus-4-8", _claude(1024, _LATE)),
    (r"claude-(?:sonnet|haiku)-5-5", _claude(1024, _LATE)),
    (r"claude-sonnet-(?:5|4(?:-[56])?)", _claude(1024)),
    # Opus 4.7: 4096 in most lists, 2048 in some.
    (r"claude-(?:haiku-4-5|opus-4-[567])", _claude(4096)),
    (r"claude-(?:opus-4(?:-[01])?|3-7-sonnet)", _claude(1024)),
    (r"claude-3-5-haiku", _claude(2048)),
    (r"gpt-35-", _gpt(_HOUR)),  # how Azure spells GPT-3.5
    # From GPT-5.6 on there is a documented least lifetime, and no longest one.
    (r"gpt-(?:5\.(?:[6-9]|\d\d)|[6-9]|\d\d)", _gpt(None, (GPT_BREAKPOINTS, GPT), late_tools=True)),
    # Retention may be extended: up to 24 hours, by default for most organisations, always for GPT-5.5.
    (r"gpt-(?:5|4\.1)", _gpt(_DAY, late_tools=True)),
    (r"ft:", _gpt(_DAY)),
    # In memory only: always gone within an hour. Not gpt-oss: open weights behind somebody's server, whose template
    # drops a late system message.
    (r"o3", _gpt(_HOUR, late_tools=True)),
    (r"gpt-\d|o\d|chatgpt-", _gpt(_HOUR)),
    # Older lists have 1024 (Flash) and 4096 (Pro) for 2.5.
    (r"gemini-2\.5", ModelFacts((GEMINI,), 2048, source=_GEMINI)),
    (r"gemini-[3-9]", ModelFacts((GEMINI,), 4096, source=_GEMINI)),
    (r"nova-", ModelFacts((NOVA,), 1000, source=_BEDROCK)),
    (r"deepseek-", ModelFacts((DEEPSEEK,), source=_DEEPSEEK)),
)
# After a Claude family a date, `@date`, `-v1:0` or `-latest` does not matter; a further number is another model.
_PATTERNS = tuple(
    (re.compile(rf"(?:{pattern})(?!\d|-\d\d?(?!\d))" if pattern.startswith("claude") else pattern), facts)
    for pattern, facts in _FAMILIES
)
# Whose it is, not what it is: `us.anthropic.`, `anthropic/`, `models/`, `publishers/google/models/`, an ARN.
_OWNER = re.compile(r"^(?:.*/)?(?:(?:[a-z]{2,6}(?:-gov)?\.)?(?:anthropic|amazon|deepseek)\.)?")
_POINT = re.compile(r"(?<=\d)\.(?=\d)")  # some spell `claude-opus-4.8`


def model_facts(model: str) -> ModelFacts | None:
    """The facts of a model.

    Args:
        model: Its name, as any provider spells it.

    Returns:
        The facts of its family; None when no family has it.
    """
    name = _OWNER.sub("", model.lower())
    if name.startswith("claude"):
        name = _POINT.sub("-", name)
    return next((facts for pattern, facts in _PATTERNS if pattern.match(name)), None)

"""The built-in prices: US dollars for a million tokens, standard tier. Data only; `prices` reads it.

Amounts stand as (input, cache read, cache write for minutes, cache write for longer, output); None is "not published".
Read from the providers' pages where a public copy was at hand; where the source says so, from genai-prices 0.2.3
(November 2026), which cites the same pages. Not here, because a table without a clock would be wrong for most hours or
weeks: DeepSeek (peak and off-peak hours), Gemini 4 Argon (its first price ends with November 2026). Not here, because
no page that has it was found: GPT-6.2.
"""

from __future__ import annotations

from typing import TypeAlias

_Amounts: TypeAlias = tuple[str, str | None, str | None, str | None, str]
_FIELDS = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")

_CLAUDE_PAGE = "https://platform.claude.com/docs/en/about-claude/pricing"
_OPENAI_PAGE = "https://developers.openai.com/api/docs/pricing (by genai-prices 0.2.3)"
_GEMINI_PAGE = "https://ai.google.dev/gemini-api/docs/pricing (by genai-prices 0.2.3)"


def _entry(
    provider: str,
    models: str,
    amounts: _Amounts,
    *,
    as_of: str,
    source: str,
    until: str = "",
    long: tuple[int, _Amounts] | None = None,
) -> dict[str, object]:
    """One entry as a price file has it; `models` is a list in words."""
    entry: dict[str, object] = {"provider": provider, "models": models.split(), "as_of": as_of, "source": source}
    entry |= {name: amount for name, amount in zip(_FIELDS, amounts, strict=True) if amount is not None}
    if until:
        entry["until"] = until
    if long is not None:
        above, rates = long
        entry["long_above"] = above
        entry["long"] = {name: rate for name, rate in zip(_FIELDS, rates, strict=True) if rate is not None}
    return entry


def _claude(models: str, *amounts: str, source: str = _CLAUDE_PAGE) -> dict[str, object]:
    read, short, long = amounts[1:4]
    return _entry("anthropic", models, (amounts[0], read, short, long, amounts[4]), as_of="2026-11", source=source)


def _openai(
    models: str, amounts: _Amounts, long: _Amounts | None = None, *, as_of: str = "2026-10-12"
) -> dict[str, object]:
    over = None if long is None else (272_000, long)
    return _entry("openai", models, amounts, as_of=as_of, source=_OPENAI_PAGE, long=over)


def _gemini(models: str, amounts: _Amounts, long: _Amounts | None = None, *, until: str = "") -> dict[str, object]:
    over = None if long is None else (200_000, long)
    return _entry("google", models, amounts, as_of="2026-10-14", source=_GEMINI_PAGE, until=until, long=over)


_INTRODUCTION_ENDS = "2026-12-31"

PRICE_LIST: tuple[dict[str, object], ...] = (
    _claude(
        "claude-fable-5.2 claude-mythos-5.2",
        "8",
        "0.20",
        "10",
        "16",
        "40",
        source=f"{_CLAUDE_PAGE} (by genai-prices 0.2.3)",
    ),
    _claude("claude-fable-5.1 claude-mythos-5.1", "10", "0.25", "12.50", "20", "50"),
    _claude("claude-fable-5 claude-mythos-5", "10", "1", "12.50", "20", "50"),
    _claude("claude-opus-5.5", "4", "0.20", "5", "8", "20"),
    _claude(
        "claude-opus-5 claude-opus-4.8 claude-opus-4.7 claude-opus-4.6 claude-opus-4.5", "5", "0.50", "6.25", "10", "25"
    ),
    _claude("claude-opus-4.1 claude-opus-4 claude-opus-4.0", "15", "1.50", "18.75", "30", "75"),
    _claude("claude-sonnet-5.5", "2", "0.10", "2.50", "4", "10", source=f"{_CLAUDE_PAGE} (by genai-prices 0.2.3)"),
    _claude("claude-sonnet-5", "2", "0.20", "2.50", "4", "10"),
    _claude("claude-sonnet-4.6 claude-sonnet-4.5 claude-sonnet-4 claude-sonnet-4.0", "3", "0.30", "3.75", "6", "15"),
    _entry(
        "anthropic",
        "claude-haiku-5.5",
        ("0.10", "0.01", "0.125", "0.20", "0.50"),
        as_of="2026-11",
        source=f"{_CLAUDE_PAGE} (by genai-prices 0.2.3)",
        long=(100_000, ("0.50", "0.05", "0.625", "1", "2.50")),
    ),
    _claude("claude-haiku-4.5", "1", "0.10", "1.25", "2", "5"),
    # OpenAI publishes the price of its longer write (12 hours) as well; only that of GPT-6.1 Terra was found.
    _openai(
        "gpt-6.1-terra",
        ("1", "0.05", "1.25", "2.50", "5"),
        ("2", "0.10", "2.50", None, "7.50"),
        as_of="2026-10-26",
    ),
    _openai("gpt-6.1-sol", ("2", "0.10", "2.50", None, "10"), ("4", "0.20", "5", None, "15")),
    _openai("gpt-6-astra", ("10", "1", "12.50", None, "50"), ("20", "2", "25", None, "75")),
    _openai("gpt-6-sol", ("2", "0.20", "2.50", None, "10"), ("4", "0.40", "5", None, "15")),
    _openai("gpt-6-luna", ("0.10", "0.01", "0.125", None, "0.50"), ("0.20", "0.02", "0.25", None, "0.75")),
    _openai("gpt-5.6-sol", ("4", "0.40", "5", None, "20"), ("8", "0.80", "10", None, "30")),
    _openai("gpt-5.6-terra", ("2", "0.20", "2.50", None, "12"), ("4", "0.40", "5", None, "18")),
    _openai("gpt-5.6-luna", ("0.20", "0.02", "0.25", None, "1.20"), ("0.40", "0.04", "0.50", None, "1.80")),
    _openai("gpt-5.5", ("5", "0.50", None, None, "30"), ("10", "1", None, None, "45")),
    _openai("gpt-5.5-pro gpt-5.4-pro", ("30", None, None, None, "180"), ("60", None, None, None, "270")),
    _openai("gpt-5.4", ("2.50", "0.25", None, None, "15"), ("5", "0.50", None, None, "22.50")),
    _openai("gpt-5.4-mini", ("0.75", "0.075", None, None, "4.50")),
    _openai("gpt-5.4-nano", ("0.20", "0.02", None, None, "1.25")),
    _openai("gpt-5.3-codex gpt-5.2", ("1.75", "0.175", None, None, "14")),
    _openai("gpt-5.2-pro", ("21", None, None, None, "168")),
    _openai("gpt-5.1 gpt-5", ("1.25", "0.125", None, None, "10")),
    _openai("gpt-5-mini", ("0.25", "0.025", None, None, "2")),
    _openai("gpt-5-nano", ("0.05", "0.005", None, None, "0.40")),
    _openai("gpt-5-pro", ("15", None, None, None, "120")),
    _openai("gpt-4.1", ("2", "0.50", None, None, "8")),
    _openai("gpt-4.1-mini", ("0.40", "0.10", None, None, "1.60")),
    _openai("gpt-4.1-nano", ("0.10", "0.025", None, None, "0.40")),
    _openai("gpt-4o-2024-05-13", ("5", None, None, None, "15")),
    _openai("gpt-4o", ("2.50", "1.25", None, None, "10")),
    _openai("gpt-4o-mini", ("0.15", "0.075", None, None, "0.60")),
    _openai("o3", ("2", "0.50", None, None, "8")),
    _openai("o3-pro", ("20", None, None, None, "80")),
    _openai("o4-mini", ("1.10", "0.275", None, None, "4.40")),
    _openai("o3-mini", ("1.10", "0.55", None, None, "4.40")),
    _openai("o1", ("15", "7.50", None, None, "60")),
    _gemini(
        "gemini-3.8-flash gemini-3.7-flash gemini-3.6-flash",
        ("0.75", "0.075", None, None, "3.75"),
        until=_INTRODUCTION_ENDS,
    ),
    _gemini("gemini-3.5-flash", ("1.50", "0.15", None, None, "9")),
    _gemini("gemini-3.5-flash-lite", ("0.30", "0.03", None, None, "2.50")),
    _gemini("gemini-3.1-pro", ("2", "0.20", None, None, "12"), ("4", "0.40", None, None, "18")),
    _gemini("gemini-3.1-flash-lite", ("0.25", "0.025", None, None, "1.50")),
    _gemini("gemini-3-flash", ("0.50", "0.05", None, None, "3")),
    _gemini("gemini-2.5-pro", ("1.25", "0.125", None, None, "10"), ("2.50", "0.25", None, None, "15")),
    _gemini("gemini-2.5-flash", ("0.30", "0.03", None, None, "2.50")),
    _gemini("gemini-2.5-flash-lite", ("0.10", "0.01", None, None, "0.40")),
)
"""Families, newest first."""

"""Token counts: exact where a tokenizer is at hand, else an estimate that says that it is one. Never the network."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from .cachesim import Encode, characters
from .messages import Message

ESTIMATE = "estimate: characters / 4"
_DEFAULT_ENCODING = "o200k_base"

# tiktoken fetches a vocabulary that it does not have. These are the addresses that it names its cached files by, and
# the hashes that it checks them with (a file that differs is fetched again): we ask it only for what is there.
_VOCABULARIES = {
    "o200k_base": (
        "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k_base": (
        "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}


class Tokenizer(Protocol):
    """What is needed of a tokenizer; those of Hugging Face have it."""

    def encode(self, text: str, *, add_special_tokens: bool) -> Sequence[int]:
        """The token ids of a text."""
        ...


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts tokens, and says how.

    Attributes:
        method: How it counts, for reports: `tiktoken o200k_base`, `estimate: characters / 4`, ...
        exact: The model itself counts like this.
        encode: The tokens of a text, or what stands for them in an estimate; `CacheSim` and `predict` take it, too.
    """

    method: str
    exact: bool
    encode: Encode

    def count(self, text: str) -> int:
        """How many tokens a text has."""
        return len(self.encode(text))


def token_counter(model: str = "", tokenizer: Tokenizer | None = None) -> TokenCounter:
    """The best counter that works here, now, and offline.

    In this order: the given tokenizer; tiktoken, when the vocabulary is in its cache already; bpe-openai, when it is
    installed; an estimate. Nothing is fetched, and nothing fails.

    Args:
        model: The model's name; it decides the vocabulary where it is OpenAI's. Others get OpenAI's newest, which is
            then not exact.
        tokenizer: The model's own tokenizer, where one has it.

    Returns:
        A counter.
    """
    if tokenizer is not None:
        own = tokenizer
        name = type(own).__name__
        return TokenCounter(f"tokenizer {name}", True, lambda text: own.encode(text, add_special_tokens=False))
    encoding = _encoding_name(model)
    name, exact = encoding or _DEFAULT_ENCODING, encoding is not None
    if (encode := _by_tiktoken(name)) is not None:
        return TokenCounter(f"tiktoken {name}", exact, encode)
    if (encode := _by_bpe_openai(name)) is not None:
        return TokenCounter(f"bpe-openai {name}", exact, encode)
    return TokenCounter(ESTIMATE, False, characters)


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has: one for each four characters, rounded up."""
    return -(-len(text) // 4)


def estimate_message_tokens(messages: Iterable[Message]) -> int:
    """About how many tokens some messages have, with four more for each message's frame."""
    return sum(estimate_tokens(message.text) + 4 for message in messages)


def _encoding_name(model: str) -> str | None:
    """The vocabulary of an OpenAI model."""
    try:
        from tiktoken.model import encoding_name_for_model
    except ModuleNotFoundError as exc:
        if not _is_missing(exc, "tiktoken"):
            raise
        return None
    try:
        name = encoding_name_for_model(model.rpartition("/")[2])
    except KeyError:
        return None
    # It differs from o200k_base in its special tokens, which no text has.
    return "o200k_base" if name == "o200k_harmony" else name


def _by_tiktoken(name: str) -> Encode | None:
    if not _is_cached(name):
        return None
    try:
        from tiktoken import get_encoding
        from tiktoken_ext.openai_public import ENCODING_CONSTRUCTORS  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as exc:
        if not _is_missing(exc, "tiktoken"):
            raise
        return None
    if not set(_VOCABULARIES[name]) <= set(ENCODING_CONSTRUCTORS[name].__code__.co_consts):
        return None  # a tiktoken that has its vocabularies from elsewhere would fetch this one anew
    return get_encoding(name).encode_ordinary


def _is_cached(name: str) -> bool:
    """Whether the vocabulary is where tiktoken looks for it, and whole."""
    if name not in _VOCABULARIES:
        return False
    url, sha256 = _VOCABULARIES[name]
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder == "":
        return False  # tiktoken then caches nothing
    path = Path(folder) if folder is not None else Path(tempfile.gettempdir(), "data-gym-cache")
    file = path / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    try:
        modified = file.stat().st_mtime_ns
    except OSError:
        return False
    return _has_hash(file, modified, sha256)


@cache
def _has_hash(file: Path, modified: int, sha256: str) -> bool:
    """Whether a file has this hash; asked anew when it was modified."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def _by_bpe_openai(name: str) -> Encode | None:
    try:
        import bpe_openai  # pyright: ignore[reportMissingImports]  # optional, not declared
    except ModuleNotFoundError as exc:
        if not _is_missing(exc, "bpe_openai"):
            raise
        return None
    try:
        return cast(Any, bpe_openai).get_encoding(name).encode_ordinary
    except KeyError:  # a vocabulary that it does not have
        return None


def _is_missing(exc: ModuleNotFoundError, package: str) -> bool:
    """Whether the package itself is not installed, and not something that it needs."""
    return exc.name is not None and exc.name.partition(".")[0] == package


__all__ = ["ESTIMATE", "TokenCounter", "Tokenizer", "estimate_message_tokens", "estimate_tokens", "token_counter"]

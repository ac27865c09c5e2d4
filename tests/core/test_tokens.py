"""Token counts: the best method at hand, named, and never the network (which these tests cannot reach)."""

from __future__ import annotations

import builtins
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pkv_agents import Message, estimate_message_tokens, estimate_tokens, token_counter
from pkv_agents.tokens import ESTIMATE, _is_cached

TEXT = "Where is order 4471? <|endoftext|> Zürich"


def vocabularies() -> Path:
    """The folder of vocabularies that llama-index-core brings; the test is skipped without it."""
    found = find_spec("llama_index.core")  # not imported: that takes seconds
    if found is None or found.origin is None:
        pytest.skip("llama-index-core is not installed")
    return Path(found.origin).parent / "_static" / "tiktoken_cache"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No vocabulary is cached and bpe-openai is not installed."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    return monkeypatch


def test_the_models_own_tokenizer_comes_first() -> None:
    class Letters:
        def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
            return [0] * (len(text) + add_special_tokens)

    counter = token_counter("gpt-5", Letters())
    assert (counter.method, counter.exact, counter.count(TEXT)) == ("tokenizer Letters", True, len(TEXT))


@pytest.mark.parametrize(
    ("model", "method", "exact", "tokens"),
    [
        ("gpt-5.6", "tiktoken o200k_base", True, 15),
        ("openai/gpt-oss-120b", "tiktoken o200k_base", True, 15),
        ("gpt-4", "tiktoken cl100k_base", True, 16),
        ("claude-opus-5", "tiktoken o200k_base", False, 15),
        ("", "tiktoken o200k_base", False, 15),
    ],
)
def test_tiktoken_where_its_vocabulary_is_cached(
    bare: pytest.MonkeyPatch, model: str, method: str, exact: bool, tokens: int
) -> None:
    bare.setenv("TIKTOKEN_CACHE_DIR", str(vocabularies()))
    counter = token_counter(model)
    assert (counter.method, counter.exact, counter.count(TEXT)) == (method, exact, tokens)
    assert counter.count("") == 0


def test_without_a_vocabulary_an_estimate_that_says_so(bare: pytest.MonkeyPatch) -> None:
    counter = token_counter("gpt-5")
    assert (counter.method, counter.exact) == (ESTIMATE, False) == ("estimate: characters / 4", False)
    assert counter.count("12345") == estimate_tokens("12345") == 2


def test_a_damaged_or_switched_off_cache_is_none(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """tiktoken would fetch the vocabulary anew."""
    for file in vocabularies().iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[:-1])
    assert token_counter("gpt-5").method == ESTIMATE
    bare.setenv("TIKTOKEN_CACHE_DIR", "")
    assert token_counter("gpt-5").method == ESTIMATE
    bare.delenv("TIKTOKEN_CACHE_DIR")
    bare.setenv("DATA_GYM_CACHE_DIR", str(vocabularies()))
    assert _is_cached("o200k_base") and not _is_cached("no-such-vocabulary")


def test_a_tiktoken_that_has_its_vocabularies_from_elsewhere_is_not_asked(bare: pytest.MonkeyPatch) -> None:
    public = pytest.importorskip("tiktoken_ext.openai_public")
    bare.setenv("TIKTOKEN_CACHE_DIR", str(vocabularies()))
    bare.setitem(public.ENCODING_CONSTRUCTORS, "o200k_base", lambda: pytest.fail("asked"))
    assert token_counter("gpt-5").method == ESTIMATE


def test_bpe_openai_where_it_is_installed(bare: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("bpe_openai")

    class Encoding:
        def encode_ordinary(self, text: str) -> list[int]:
            return list(text.encode())

    def get_encoding(name: str) -> Encoding:
        if name != "o200k_base":
            raise KeyError(name)
        return Encoding()

    module.get_encoding = get_encoding
    bare.setitem(sys.modules, "bpe_openai", module)
    assert token_counter("gpt-5").method == "bpe-openai o200k_base"
    assert token_counter("gpt-5").count("ü") == 2
    assert token_counter("gpt-4").method == ESTIMATE, "a vocabulary that it does not have"


def test_without_tiktoken_nothing_fails(bare: pytest.MonkeyPatch) -> None:
    for name in ("tiktoken", "tiktoken.model"):
        bare.setitem(sys.modules, name, None)
    assert token_counter("gpt-5").method == ESTIMATE


def test_an_import_that_fails_for_another_reason_is_not_hidden(bare: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def broken(name: str, *rest: Any, **more: Any) -> Any:
        if name == "bpe_openai":
            raise ModuleNotFoundError("No module named 'typing_extensions'", name="typing_extensions")
        return real(name, *rest, **more)

    bare.setattr(builtins, "__import__", broken)
    with pytest.raises(ModuleNotFoundError, match="typing_extensions"):
        token_counter("gpt-5")


def test_messages_are_estimated_with_their_frames() -> None:
    assert estimate_message_tokens([Message("user", "12345"), Message("assistant")]) == 2 + 4 + 4

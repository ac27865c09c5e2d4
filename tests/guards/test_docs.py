"""The Python on the pages of docs/ runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pkv_agents import Notice, notices
from tests.guards.repo import PACKAGES, ROOT
from tests.local.tiny import tiny_llama, tiny_tokenizer

PAGES = ["core.md", "local.md", "migrate_langchain.md", "skills.md"]


def snippets(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": page}
    if page == "local.md":  # what its first lines load from a folder
        tokenizer = tiny_tokenizer()
        namespace |= {"model": tiny_llama(vocab_size=max(448, len(tokenizer))), "tokenizer": tokenizer}
    code = snippets(page)
    assert code
    for snippet in code:
        exec(compile(snippet, page, "exec", dont_inherit=True), namespace)
    assert capsys.readouterr().out


def codes(package: str) -> set[str]:
    """The codes of the notices that a package makes."""
    sources = [path.read_text(encoding="utf-8") for path in PACKAGES[package].rglob("*.py")]
    return set(re.findall(r'Notice\(\s*(?:code=)?"([a-z_]+)"', "\n".join(sources)))


def test_every_notice_stands_in_a_table() -> None:
    core = set(re.findall(r"^\| `([a-z_]+)` \|", str(notices.__doc__), flags=re.MULTILINE))
    assert codes("pkv_agents") <= core
    for package, folder in (("langchain_pkv", "langchain"), ("llama_index.llms.pkv", "llama_index")):
        told = (ROOT / "integrations" / folder / "README.md").read_text(encoding="utf-8")
        own = codes(package) - core
        assert own
        assert not [code for code in sorted(own) if f"`{code}`" not in told]


def test_the_page_names_what_strict_lets_pass() -> None:
    core = set(re.findall(r"^\| `([a-z_]+)` \|", str(notices.__doc__), flags=re.MULTILINE))
    page = (ROOT / "docs" / "core.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+)`", page.partition("but for advice")[2]))
    assert named == {code for code in core if Notice(code).is_advice}

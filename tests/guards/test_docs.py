"""The Python on the pages of docs/ runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.guards.repo import ROOT
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

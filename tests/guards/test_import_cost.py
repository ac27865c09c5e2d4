"""Importing us must stay cheap: each import is tried in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.guards.repo import ROOT

HEAVY = {
    *("torch", "transformers", "numpy", "langchain", "langchain_core", "langgraph", "llama_index", "matplotlib"),
    *("tiktoken", "regex", "requests", "bpe_openai"),  # for counting tokens, when somebody counts
}


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a statement leaves in ``sys.modules``."""
    code = f"import sys, json\n{statement}\nprint(json.dumps(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_the_core_loads_no_framework() -> None:
    assert loaded_by("import pkv_agents") & HEAVY == set()


def test_the_langchain_adapter_loads_no_torch() -> None:
    assert loaded_by("import langchain_pkv") & {"torch", "transformers", "llama_index"} == set()


@pytest.mark.slow
def test_the_adapters_live_beside_the_frameworks() -> None:
    """Our folders named after the frameworks shadow neither of them, and share the llama_index namespace."""
    code = "import langchain.agents, llama_index.core, llama_index.llms.pkv, langchain_pkv"
    assert {"langchain", "llama_index", "langchain_pkv"} <= loaded_by(code)

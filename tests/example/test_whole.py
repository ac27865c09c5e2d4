"""The example as README promises it, on the embedded model with the shop's adapter. Times are not asserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.support_agent.arms import ARMS
from examples.support_agent.llama_index_models import LlamaIndexModels
from examples.support_agent.models import choose_model
from examples.support_agent.runner import run
from examples.support_agent.scenario import TURNS
from examples.support_agent_llamaindex import run as run_llama_index

pytestmark = [pytest.mark.embedded, pytest.mark.slow, pytest.mark.timeout(1500)]


def test_the_whole_conversation_on_the_embedded_model(embedded_model: Path) -> None:
    # Without `rewrite`, which reads its head twelve times: most of the example's time, and the next test knows it.
    result = run(choose_model(), arms=[arm for arm in ARMS if arm != "rewrite"])
    totals = result.totals()
    assert result.head_tokens >= 3000
    assert (totals["ours"].cached_share_after_first or 0) >= 0.97
    assert (totals["ours"].agreement or 0) >= len(TURNS) - 1
    assert totals["ours"].policy_correct >= len(TURNS) - 2
    assert totals["stale"].policy_correct <= len(TURNS) - 4


def test_a_rewritten_head_is_read_again_each_turn(embedded_model: Path) -> None:
    result = run(choose_model(), arms=("rewrite",), turns=3)
    assert (result.totals()["rewrite"].cached_share_after_first or 1) < 0.20


def test_the_other_frameworks_agent_decides_the_same(embedded_model: Path) -> None:
    """That all requests are the same is in test_llamaindex; here with the embedded model and the engine's cache."""
    one = run(choose_model(), arms=["ours"])
    other = run_llama_index(choose_model(models=LlamaIndexModels()), arms=["ours"])
    assert [row.decision for row in one.rows] == [row.decision for row in other.rows]
    assert [row.cached_tokens for row in one.rows] == [row.cached_tokens for row in other.rows]

"""The example as issue and README promise it, on the embedded model with the shop's adapter. Times are not asserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.support_agent.models import ADAPTER, choose_model
from examples.support_agent.runner import run
from examples.support_agent.scenario import TURNS


@pytest.mark.embedded
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_whole_conversation_on_the_embedded_model(embedded_model: Path) -> None:
    if not (ADAPTER / "adapter_model.safetensors").is_file():
        pytest.skip("the shop's adapter is not in the repository")
    result = run(choose_model())
    totals = result.totals()
    assert result.head_tokens >= 3000
    assert (totals["ours"].cached_share_after_first or 0) >= 0.97
    assert (totals["rewrite"].cached_share_after_first or 1) < 0.20
    # Printed: 11 of 12. One near-tie is left for other thread counts; a better trained adapter will tighten this.
    assert (totals["ours"].agreement or 0) >= len(TURNS) - 2
    assert totals["ours"].policy_correct >= len(TURNS) - 2
    assert totals["stale"].policy_correct <= len(TURNS) - 4

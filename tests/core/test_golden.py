"""The exact bytes, in this process and in others: models are trained on them and caches are keyed by them.

Where the bytes are meant to change, the golden files are made again by

    python -m tests.core.golden_case > tests/core/golden/wire.txt
    python -m tests.core.golden_talks > tests/core/golden/talks.txt
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pkv_agents import GENERIC, OPENAI, Change, Snapshot, render_baseline, render_erratum
from tests.core.golden_case import wires
from tests.core.golden_talks import talks

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GOLDEN = (HERE / "golden" / "wire.txt").read_bytes()
TALKS = (HERE / "golden" / "talks.txt").read_bytes()


def test_the_bytes_are_the_golden_ones() -> None:
    assert (wires(OPENAI) + "\n#####\n\n" + wires(GENERIC)).encode() == GOLDEN
    assert talks() == TALKS


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONUTF8": "0"},
        {"PYTHONHASHSEED": "4242", "LC_ALL": "tr_TR.UTF-8", "TZ": "America/St_Johns"},
    ],
)
def test_the_bytes_are_the_same_in_another_process(environment: dict[str, str]) -> None:
    code = "import sys; from tests.core import golden_case as one, golden_talks as two; "
    code += "sys.stdout.buffer.write((one.wires(one.OPENAI) + '\\n#####\\n\\n' + one.wires(one.GENERIC)).encode()); "
    code += "sys.stdout.buffer.write(two.talks())"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )
    assert found.stdout == GOLDEN + TALKS


def test_the_formats_of_the_specification() -> None:
    shown = Snapshot(
        {
            "customer.name": '"Mara Lindt"',
            "customer.tier": '"gold"',
            "orders[K417].status": '"in transit"',
            "orders[K417].total": '"129.90"',
        }
    )
    assert render_baseline(shown, tag="k7f3") == (
        'Current state. A later <state-update id="k7f3"> block gives the current value of the fields it names; '
        "it overrides earlier values and any conclusion drawn from them.\n"
        '<state id="k7f3">\n'
        'customer.name: "Mara Lindt"\n'
        'customer.tier: "gold"\n'
        'orders[K417].status: "in transit"\n'
        'orders[K417].total: "129.90"\n'
        "</state>"
    )
    changes = [Change("orders[K417].status", "set", '"delivered"'), Change("orders[M220]", "remove")]
    assert render_erratum(changes, tag="k7f3") == (
        '<state-update id="k7f3">\norders[K417].status: "delivered"\norders[M220]: removed\n</state-update>'
    )

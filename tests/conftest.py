"""What holds for every test: no network, no warnings, and a hypothesis profile chosen by HYPOTHESIS_PROFILE.

At the end of a run it says how many examples hypothesis tried.

The network ban (loopback and Unix sockets aside) and the warning filters stand in pyproject.toml, so they hold for
every way to start pytest.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.statistics import collector

# Set before any test imports the libraries that read them.
os.environ.update(
    HF_HUB_OFFLINE="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    LANGSMITH_TRACING="false",
    MPLBACKEND="Agg",
    TOKENIZERS_PARALLELISM="false",
)
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"  # a worker a core

# check and full: the same examples each time, so that a run says something about the commit and not about its luck.
# fuzz: new examples each time, to find what they do not; a failure prints its blob, and its example joins the test.
settings.register_profile("check", max_examples=25, deadline=None, derandomize=True, database=None)
_MANY = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("full", _MANY, max_examples=200, derandomize=True)
settings.register_profile("fuzz", _MANY, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "check"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test whose name holds an address: it has another one in each worker, and then none of them runs."""
    wrong = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if wrong:
        raise pytest.UsageError(f"give the parameters of this test ids: {wrong[0]}")


def pytest_collection_finish() -> None:
    """Take what the imports made (millions of objects, with torch) out of the garbage collector's walks.

    They live until the process ends. Walking them again at each full collection took more than half of the run's time:
    pytest alone collects five times at the end.
    """
    gc.collect()
    gc.freeze()


_EXAMPLES = "hypothesis_examples"


@pytest.hookimpl(wrapper=True, trylast=True)  # innermost: hypothesis' own plugin has put its collector in by then
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note on a test's report how many examples it tried, so that a worker's counts reach the controller as well."""
    others = collector.value

    def count(statistics: Mapping[str, Any]) -> None:
        phases = [statistics.get(phase, {}).get("test-cases", ()) for phase in ("reuse-phase", "generate-phase")]
        # Drawn and run to its end: not what an assumption refused, nor the steps of a shrinking.
        tried = sum(case["status"] in ("valid", "interesting") for cases in phases for case in cases)
        item.user_properties.append((_EXAMPLES, tried))
        if others is not None:
            others(statistics)

    with collector.with_value(cast(Any, count)):
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many examples all tests tried together."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    noted = [report.user_properties for report in reports if getattr(report, "when", "") == "call"]
    total = sum(value for properties in noted for name, value in properties if name == _EXAMPLES)
    if total:
        terminalreporter.write_line(f"{total:,} hypothesis examples")


@pytest.fixture(scope="session")
def embedded_model() -> Path:
    """The folder of the embedded model; the test is skipped where it is not in the cache (`make model` fetches it)."""
    from examples.support_agent.embedded import find_model

    folder = find_model()
    if folder is None:
        pytest.skip("the embedded model is not in the cache; fetch it with: make model")
    return folder


@pytest.fixture(scope="session")
def embedded_tokenizer(embedded_model: Path) -> Any:
    """The embedded model's tokenizer."""
    from transformers import AutoTokenizer

    return cast("Any", AutoTokenizer).from_pretrained(embedded_model)


@pytest.fixture
def llamacpp_address() -> Generator[str]:
    """A llama.cpp server of this process with the embedded model; each test has its own, with an empty cache."""
    from tests.llamacpp import served

    with served() as address:
        yield address

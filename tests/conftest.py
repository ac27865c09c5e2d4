"""What holds for every test: no network, no warnings, and a hypothesis profile chosen by HYPOTHESIS_PROFILE.

The network ban (loopback and Unix sockets aside) and the warning filters stand in pyproject.toml, so they hold for
every way to start pytest.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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

# check: the same examples each time, for a commit. full: new examples each time, for CI; a failure prints its blob.
settings.register_profile("check", max_examples=25, deadline=None, derandomize=True, database=None)
settings.register_profile(
    "full", max_examples=200, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "check"))


def pytest_collection_finish() -> None:
    """Take what the imports made (millions of objects, with torch) out of the garbage collector's walks.

    They live until the process ends. Walking them again at each full collection took more than half of the run's time:
    pytest alone collects five times at the end.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def embedded_model() -> Path:
    """The folder of the embedded model; the test is skipped where it is not in the cache (`make model` fetches it)."""
    from examples.support_agent.embedded import find_model

    folder = find_model()
    if folder is None:
        pytest.skip("the embedded model is not in the cache; fetch it with: make model")
    return folder

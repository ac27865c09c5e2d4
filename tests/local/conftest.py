"""The embedded model for tests that want a real one: a folder named by PKV_EMBEDDED_MODEL."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def embedded_folder() -> Path:
    folder = os.environ.get("PKV_EMBEDDED_MODEL", "")
    if not folder or not (Path(folder) / "config.json").is_file():
        pytest.skip("PKV_EMBEDDED_MODEL does not name a folder with a model")
    return Path(folder)

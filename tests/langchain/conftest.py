"""What holds for the tests of the LangChain adapter."""

from __future__ import annotations

from typing import Any

import pytest

import pkv_agents.planning


@pytest.fixture(autouse=True)
def short_heads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heads here are as short as tests are, so nothing is said about that where it is not the subject."""

    def nothing(*_: Any) -> None:
        return None

    if "below_minimum" not in request.node.name:
        monkeypatch.setattr(pkv_agents.planning, "minimum_notice", nothing)

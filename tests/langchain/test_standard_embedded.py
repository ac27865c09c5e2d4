"""LangChain's own integration suite on the embedded model: a real model of 135M parameters in this process."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_tests.integration_tests import ChatModelIntegrationTests

from langchain_pkv import LocalChatModel

pytestmark = [pytest.mark.embedded, pytest.mark.slow]


@cache
def loaded(folder: Path) -> Any:
    """The engine, once for all tests."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from pkv_agents.local import LocalModel

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return LocalModel(model, AutoTokenizer.from_pretrained(folder))


class TestLocal(ChatModelIntegrationTests):
    @pytest.fixture
    def model(self, embedded_model: Path) -> BaseChatModel:
        return LocalChatModel(local=loaded(embedded_model), max_tokens=48)

    @property
    def chat_model_class(self) -> type[LocalChatModel]:
        return LocalChatModel

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {}

    @property
    def supports_model_override(self) -> bool:
        return False  # the model is loaded: a name changes nothing

    @property
    def supported_usage_metadata_details(self) -> Any:
        return {"invoke": [], "stream": []}

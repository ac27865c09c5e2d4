"""The place of pkv-agents' LlamaIndex adapter; it holds no adapter yet.

``StatefulLLM`` comes with a later release. Until then a LlamaIndex program can use the core by hand: plan a turn with
``pkv_agents.AgentSession`` and send what ``pkv_agents.wire`` returns.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"

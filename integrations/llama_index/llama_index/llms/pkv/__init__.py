"""pkv-agents for LlamaIndex: tracked state for models, agents and workflows, and local models.

llm = StatefulLLM(OpenAI(model="gpt-5"), AgentSession(shop, key="user-42", instructions=POLICY))
llm = StatefulLLM(OpenAI(model="gpt-5"), ContextSession(Shop, instructions=POLICY), skills=registry)
agent = FunctionAgent(llm=llm, tool_retriever=StateTools(llm, [refund, cancel]))
llm = LocalLLM(local=LocalModel(model, tokenizer))
"""

from typing import TYPE_CHECKING, Any

from llama_index.llms.pkv._calls import ModelCall
from llama_index.llms.pkv._context import ContextSession, SessionOptions
from llama_index.llms.pkv._messages import to_core
from llama_index.llms.pkv.memory import StateMemory
from llama_index.llms.pkv.skills import skill_tools
from llama_index.llms.pkv.stateful import StatefulLLM
from llama_index.llms.pkv.tools import StateTools

if TYPE_CHECKING:
    from llama_index.llms.pkv.local import LocalLLM

__all__ = [
    "ContextSession",
    "LocalLLM",
    "ModelCall",
    "SessionOptions",
    "StateMemory",
    "StateTools",
    "StatefulLLM",
    "skill_tools",
    "to_core",
]


def __getattr__(name: str) -> Any:
    """Import `LocalLLM` when it is asked for: it needs the extra `local`."""
    if name == "LocalLLM":
        from llama_index.llms.pkv.local import LocalLLM

        return LocalLLM
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The usage of a model's answer, in the core's disjoint buckets."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage

from pkv_agents import Usage, normalise_usage


def usage_of(messages: Sequence[BaseMessage]) -> Usage | None:
    """The usage that the answer reports; None when it reports none, or comes from LangChain's own cache of answers.

    Args:
        messages: What a model call returned: the answer, perhaps with messages after it.
    """
    for message in messages:
        if isinstance(message, AIMessage):
            if (message.usage_metadata or {}).get("total_cost") == 0:  # so LangChain marks what it had in its cache
                return None
            usage = normalise_usage(message)
            return None if usage.status == "not reported" else usage
    return None

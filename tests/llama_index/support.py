"""What the tests of the LlamaIndex adapter share: a shop, and ways to read a request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, cast

from llama_index.core.llms import ChatMessage

from pkv_agents import AgentSession, Notice
from tests.retail import TAG as TAG
from tests.retail import UPDATE as UPDATE
from tests.retail import ClockShop as ClockShop
from tests.retail import Customer as Customer
from tests.retail import Order as Order
from tests.retail import Shop as Shop
from tests.retail import a_shop as a_shop


def a_session(key: str = "mara", **values: Any) -> AgentSession[Shop]:
    return AgentSession(a_shop(**values), key=key, instructions="You help.", tag=TAG)


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def assistant(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", content=text)


def system(text: str) -> ChatMessage:
    return ChatMessage(role="system", content=text)


def errata_in(body: Any) -> list[str]:
    """Every erratum with our tag in a payload, in order."""
    found: list[str] = []
    for text in _texts(body):
        rest = text
        while f"{UPDATE}\n" in rest:  # the declaration in the head names the tag and opens no block
            block, _, rest = rest.partition(f"{UPDATE}\n")[2].partition("\n</state-update>")
            found.append(block)
    return found


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[str, Any]", value).values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item)


def wire_prefix(body: dict[str, Any]) -> list[str]:
    """A payload as the sequence that a prefix cache sees: tools, head, each message one item; markers left out."""
    head = [body.get("tools"), body.get("system"), body.get("system_instruction")]
    return [json.dumps(_unmarked(item)) for item in [head, *body.get("messages", body.get("input", ()))]]


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {name: _unmarked(item) for name, item in items if name != "cache_control"}
    if isinstance(value, list):
        return [
            _unmarked(item)
            for item in cast("list[Any]", value)
            if not (isinstance(item, dict) and "cachePoint" in item)
        ]
    return value


def assert_append_only(bodies: Sequence[dict[str, Any]]) -> None:
    """I1 on the wire: each request's bytes are a prefix of the next one's."""
    for earlier, later in pairwise(bodies):
        first, second = wire_prefix(earlier), wire_prefix(later)
        assert second[: len(first)] == first, f"the prefix moved:\n{first}\n{second}"


def codes(notices: Iterable[Notice]) -> list[str]:
    """The notices that are no advice."""
    return [notice.code for notice in notices if not notice.is_advice]


STREAMED: dict[str, Any] = {"additional_kwargs": {"stream_options": {"include_usage": True}}}
WAYS = ["chat", "stream_chat", "achat", "astream_chat"]
TEXT_WAYS = ["complete", "stream_complete", "acomplete", "astream_complete"]


async def ask(llm: Any, way: str, given: Any, **options: Any) -> Any:
    """Call a method; of a stream, the last chunk."""
    if way.startswith("a"):
        found = await getattr(llm, way)(given, **options)
        return [piece async for piece in found][-1] if "stream" in way else found
    found = getattr(llm, way)(given, **options)
    return list(found)[-1] if "stream" in way else found


HEAD = (
    f'You help.\n\nCurrent state. A later <state-update id="{TAG}"> block gives the current value of the fields it '
    "names; it overrides earlier values and any conclusion drawn from them.\n"
    f'<state id="{TAG}">\ncustomer.name: "Mara Lindt"\ncustomer.tier: "gold"\n'
)

"""Four ways to keep a model informed of a state that changes, as LangChain middleware.

Hypothesis: appending a short erratum keeps the prompt's cache and decides as a head does that is rendered afresh.

    rewrite       the head is rendered afresh each turn, the state near its top: what most people do
    rewrite_late  the same, the state at the head's end: what careful people do; the oracle for decisions
    ours          `StateMiddleware`: the head stays, what changed is told after the newest message
    stale         the head is rendered once and never corrected: what people do who only want the cache

`ours` with the cached share of `stale` and the decisions of `rewrite_late` confirms it. `stale` deciding well would
mean that the conversation does not test anything.

All four are the same `create_agent`, the same tools, the same graph state; only the middleware differs.
"""
# No `from __future__ import annotations`: LangGraph evaluates the annotations of the state class.

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NotRequired, cast, get_args

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]  # untyped checkpointer there
from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import SystemMessage
from langgraph.checkpoint.memory import InMemorySaver

from langchain_pkv import ModelCall, StateMiddleware
from pkv_agents import Notice, SkillRegistry, apply_patch, render_baseline, snapshot

from .schema import Shop, all_plain, read_shop
from .script import POLICY_SCRIPT, Script
from .tools import shop_tools, skill_tool

Arm = Literal["rewrite", "rewrite_late", "ours", "stale"]
ARMS: tuple[Arm, ...] = get_args(Arm)
ORACLE: Arm = "rewrite_late"

POLICY = POLICY_SCRIPT.instructions
TAG = "k7f3"
"""The tag of the state blocks, fixed so that a run can be repeated. An application leaves it out: random then."""


def build_agent(
    llm: BaseChatModel,
    arm: Arm,
    *,
    watch: AgentMiddleware[Any, Any, Any],
    tag: str = TAG,
    on_call: Callable[[ModelCall], None] | None = None,
    on_notice: Callable[[Notice], None] | None = None,
    script: Script = POLICY_SCRIPT,
    registry: Callable[[], SkillRegistry] | None = None,
) -> Any:
    """The support agent.

    Args:
        llm: The chat model.
        arm: How the model is kept informed.
        watch: The measuring middleware, the same for all arms.
        tag: The tag of the state blocks.
        on_call: Called with each planned model call (`ours` only).
        on_notice: Called with each notice (`ours` only).
        script: What is played.
        registry: Gives the skills of the moment, for an agent that loads them itself.
    """
    schema, instructions = type(script.initial()), script.instructions
    informer = (
        StateMiddleware(schema, instructions=instructions, tag=tag, on_call=on_call, on_notice=on_notice)
        if arm == "ours"
        else RenderedHead(arm, tag, instructions)
    )
    tools = [*shop_tools(), *([skill_tool(registry)] if registry else [])]
    return create_agent(llm, tools, middleware=[watch, informer], checkpointer=InMemorySaver())


def merge_state(old: dict[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """The reducer of the arms that have no `StateMiddleware`: the whole state first, patches by path later."""
    shop = apply_patch(read_shop(old), update) if old else read_shop(update)
    return shop.model_dump(mode="json")


class ShopState(AgentState[Any]):
    """The graph's state with a channel for the shop's."""

    pkv_state: NotRequired[Annotated[dict[str, Any], merge_state]]


class RenderedHead(AgentMiddleware[Any, Any, Any]):
    """Renders policy and state into the system text: each turn, or once for `stale`.

    Args:
        arm: Where the state stands and whether it is rendered again.
        tag: The tag of the state block.
        instructions: What stands before it.
    """

    state_schema = ShopState
    tools = ()

    def __init__(self, arm: Arm, tag: str, instructions: str) -> None:
        super().__init__()
        self._instructions = instructions
        self._arm: Arm = arm
        self._tag = tag
        self._first: SystemMessage | None = None

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Put the head in front of the conversation."""
        shop = read_shop(cast("Mapping[str, Any]", request.state)["pkv_state"])
        head = SystemMessage(head_text(shop, self._arm, self._tag, instructions=self._instructions))
        self._first = self._first or head
        return handler(request.override(system_message=self._first if self._arm == "stale" else head))


def head_text(shop: Shop, arm: Arm, tag: str = TAG, *, instructions: str = POLICY) -> str:
    """The system text of the arms that render it: every field is a plain one here, the clock too."""
    block = render_baseline(all_plain(snapshot(shop)), tag=tag)
    opening, _, rest = instructions.partition("\n\n")
    return "\n\n".join([opening, block, rest] if arm == "rewrite" else [instructions, block])


__all__ = ["ARMS", "ORACLE", "POLICY", "TAG", "Arm", "build_agent", "head_text"]

"""Long threads: two middlewares that shorten what is sent, and break the cached prefix as seldom as can be.

`SummaryMiddleware` asks for the summary in the same request that would have been sent, with one instruction behind it:
so the whole conversation is served from the cache while it is summarised. `TrimMiddleware` cuts much at once, so that
the prefix breaks once for many turns. Both leave the thread's messages alone: what is left out is remembered in a
private channel of the graph, so a fork or a resumed thread has the cut of its moment. Each cut is one rebase, reported
by `StateMiddleware` as asked for (`rebase_requested`).

List them before `StateMiddleware`.
"""
# No `from __future__ import annotations`: LangGraph evaluates the annotations of the classes made here.

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NotRequired, cast

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse, PrivateStateAttr
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.types import Command

from langchain_pkv._asking import asking, words_in
from langchain_pkv._cuts import Count, Cut, cut_at, estimated
from langchain_pkv._ledger import call_update, rebase_update
from langchain_pkv._usage import usage_of
from pkv_agents import LedgerError, Notice, OptionsError, PkvError, call_back

CHANNEL = "pkv_cut"
INSTRUCTION = (
    "Do not answer and call no tool now. Instead, summarise our conversation so far for yourself, so that you can go "
    "on with the summary alone: what the user wants, what was done and found, what is still open, and every "
    "identifier, number and promise that may matter later. The current state is known to you anyway; leave it out."
)

_log = logging.getLogger("pkv_agents")
Request = ModelRequest[Any]
Response = ModelResponse[Any]


class CutState(AgentState[Any]):
    """The channel of a thread's cut."""

    pkv_cut: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]


class _Compaction(AgentMiddleware[Any, Any, Any]):
    """What both have in common."""

    tools = ()
    state_schema = CutState
    _reason = ""

    def __init__(self, max_tokens: int, keep_tokens: int, count: Count | None) -> None:
        super().__init__()
        if not 0 < keep_tokens < max_tokens:
            raise OptionsError(f"keep_tokens must be between 0 and max_tokens, not {keep_tokens} of {max_tokens}")
        self._max, self._keep, self._count = max_tokens, keep_tokens, count or estimated

    def _view(self, request: Request) -> Request:
        """The request with the thread's cut."""
        cut = Cut.from_value(cast("dict[str, Any]", request.state).get(CHANNEL))
        messages = cast("Sequence[BaseMessage]", request.messages)
        return request if cut is None else request.override(messages=cast("list[Any]", cut.of(messages)))

    def _due(self, request: Request, view: Request) -> str | None:
        """Where to cut now; None while what is sent is short enough, or where no cut helps."""
        if self._count(view.messages) <= self._max:
            return None
        first = cut_at(request.messages, self._keep, self._count)
        now = Cut.from_value(cast("dict[str, Any]", request.state).get(CHANNEL))
        return None if now is not None and first == now.first else first

    def _shortened(self, request: Request, cut: Cut) -> Request:
        """The request with a new cut, which begins a new epoch."""
        state = cast("dict[str, Any]", request.state)
        try:
            rebase = rebase_update(state, self._reason)
        except LedgerError:  # StateMiddleware will say so, and begins anew in any case
            rebase = {}
        messages = cast("list[Any]", cut.of(request.messages))
        return request.override(messages=messages, state=cast("Any", {**state, **rebase}))


def _with_cut(response: Response, cut: Cut) -> ExtendedModelResponse[Any]:
    return ExtendedModelResponse(model_response=response, command=Command(update={CHANNEL: cut.to_dict()}))


def _counted(request: Request, asked: Response) -> Request:
    """The request with one more call in the thread's ledger: of two calls in one step the graph keeps the last's."""
    state = cast("dict[str, Any]", request.state)
    try:
        return request.override(state=cast("Any", {**state, **call_update(state, usage_of(asked.result))}))
    except LedgerError:  # see above
        return request


class TrimMiddleware(_Compaction):
    """Leaves the front of a long thread out of its requests: seldom, much at once, and never half of a tool call.

    Args:
        max_tokens: Cut when the messages of a request have more than so many.
        keep_tokens: Cut down to so many; half of them when None. The less, the more seldom the prefix breaks.
        count: Counts the tokens of messages; an estimate when None.

    Raises:
        OptionsError: If the numbers do not fit together.
    """

    _reason = "the thread was trimmed"

    def __init__(self, max_tokens: int, *, keep_tokens: int | None = None, count: Count | None = None) -> None:
        super().__init__(max_tokens, max_tokens // 2 if keep_tokens is None else keep_tokens, count)

    def wrap_model_call(
        self, request: Request, handler: Callable[[Request], Response]
    ) -> Response | ExtendedModelResponse[Any]:
        """Cut when it is due, and send what is left."""
        view = self._view(request)
        first = self._due(request, view)
        if first is None:
            return handler(view)
        return _with_cut(handler(self._shortened(request, Cut(first))), Cut(first))

    async def awrap_model_call(
        self, request: Request, handler: Callable[[Request], Awaitable[Response]]
    ) -> Response | ExtendedModelResponse[Any]:
        """Cut when it is due, and send what is left."""
        view = self._view(request)
        first = self._due(request, view)
        if first is None:
            return await handler(view)
        return _with_cut(await handler(self._shortened(request, Cut(first))), Cut(first))


class SummaryMiddleware(_Compaction):
    """Puts a summary in the place of a long thread's front; the call that makes it is served from the cache.

    That call is the request that was about to be sent, tools and all, and one instruction behind it. It goes to the
    agent's own model, and `on_call` of `StateMiddleware` sees it. Where it fails, or the model calls a tool instead,
    the thread goes on as it is, a notice `summary_failed` says so, and the next call tries again. It is answered in
    words, whatever the agent's `response_format`; where that is a form of the provider's own, it is left out of this
    call, which some providers then serve from the cache in part only.

    Args:
        max_tokens: Summarise when the messages of a request have more than so many.
        keep_tokens: Keep about so many of the newest as they are; a fifth of `max_tokens` when None.
        instruction: What the model is asked.
        count: Counts the tokens of messages; an estimate when None.
        on_notice: Called with each notice.

    Raises:
        OptionsError: If the numbers do not fit together.
    """

    _reason = "the thread was summarised"

    def __init__(
        self,
        max_tokens: int,
        *,
        keep_tokens: int | None = None,
        instruction: str = INSTRUCTION,
        count: Count | None = None,
        on_notice: Callable[[Notice], None] | None = None,
    ) -> None:
        super().__init__(max_tokens, max_tokens // 5 if keep_tokens is None else keep_tokens, count)
        self._instruction, self._on_notice = instruction, on_notice

    def wrap_model_call(
        self, request: Request, handler: Callable[[Request], Response]
    ) -> Response | ExtendedModelResponse[Any]:
        """Summarise when it is due, and send what is left."""
        view = self._view(request)
        first = self._due(request, view)
        if first is None:
            return handler(view)
        try:
            asked = handler(asking(view, self._instruction))
        except Exception as error:  # noqa: BLE001  # whatever a provider's client raises: the turn must go on
            asked = words_in(error)
            if asked is None:
                self._failed(error)
                return handler(view)
        summary = self._summary_in(asked)
        request, view = _counted(request, asked), _counted(view, asked)
        if not summary:
            return handler(view)
        cut = Cut(first, summary)
        return _with_cut(handler(self._shortened(request, cut)), cut)

    async def awrap_model_call(
        self, request: Request, handler: Callable[[Request], Awaitable[Response]]
    ) -> Response | ExtendedModelResponse[Any]:
        """Summarise when it is due, and send what is left."""
        view = self._view(request)
        first = self._due(request, view)
        if first is None:
            return await handler(view)
        try:
            asked = await handler(asking(view, self._instruction))
        except Exception as error:  # noqa: BLE001  # whatever a provider's client raises: the turn must go on
            asked = words_in(error)
            if asked is None:
                self._failed(error)
                return await handler(view)
        summary = self._summary_in(asked)
        request, view = _counted(request, asked), _counted(view, asked)
        if not summary:
            return await handler(view)
        cut = Cut(first, summary)
        return _with_cut(await handler(self._shortened(request, cut)), cut)

    def _summary_in(self, response: Response) -> str:
        answer = next((message for message in response.result if isinstance(message, AIMessage)), None)
        if answer is not None and answer.id is None:
            # LangChain names what a model says. ModelRetryMiddleware gives up with a message of its own.
            self._report("another middleware answered in the model's place")
            return ""
        summary = "" if answer is None or answer.tool_calls else answer.text.strip()
        if not summary:
            self._report("the model called a tool, or said nothing")
        return summary

    def _failed(self, error: Exception) -> None:
        if isinstance(error, PkvError):
            raise error
        self._report(f"the call raised {type(error).__name__}")

    def _report(self, message: str) -> None:
        notice = Notice(
            code="summary_failed",
            path="messages",
            cost="the thread goes on as it is, and the next call tries again",
            mend="raise max_tokens, or give another instruction",
            message=message,
        )
        _log.warning("%s", notice)
        call_back(self._on_notice, notice, "on_notice")

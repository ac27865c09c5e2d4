"""State and ledger in a workflow's context: beside the agent's memory, and saved with the context.

    shop = ContextSession(Shop, instructions=POLICY)
    agent = FunctionAgent(llm=StatefulLLM(OpenAI(...), shop), tools=tools)
    ctx = Context(agent)
    await shop.set(ctx, Shop(...))
    await agent.run("Where is my order?", ctx=ctx)
    # in a tool that takes the context: await shop.update(ctx, {"orders[K417].status": "cancelled"})

The context's store has two keys of ours, both plain JSON data, so `Context.to_dict` keeps them: `pkv_state`, and
`pkv_session` with a ledger for each agent of the workflow (agents have heads of their own, so each has been told what
it has been told). They are written with the store's `set` alone: an edit of a copy elsewhere cannot undo them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar, Unpack, cast

from llama_index.core.workflow import Context

from llama_index.llms.pkv._call_order import patched
from llama_index.llms.pkv._lately import Lately, Turns
from llama_index.llms.pkv._shared import claim_memory
from llama_index.llms.pkv._store import (
    SESSION_KEY,
    STATE_KEY,
    ContextTurn,
    HeldRecord,
    lock_of,
    put,
    record_of,
    saved_in,
)
from pkv_agents import (
    AgentSession,
    ErrataStyle,
    Notice,
    PriceTable,
    Profile,
    RebasePolicy,
    SchemaError,
    SessionError,
    SessionReport,
    StateError,
    Tools,
    TrackedState,
    dump_state,
    load_state,
)

StateT = TypeVar("StateT", bound=TrackedState)


class SessionOptions(TypedDict, total=False):
    """What an `AgentSession` also takes; see there."""

    instructions: str
    profile: Profile
    on_notice: Callable[[Notice], None]
    strict: bool
    tag: str
    rebase_policy: RebasePolicy
    style: ErrataStyle
    prices: PriceTable
    clock: Callable[[], datetime]


class ContextSession(Generic[StateT]):
    """A session for each workflow context that runs with it.

    Args:
        schema: The class of the state.
        state: A function that reads the application's own state; then the context holds the ledgers alone.
        initial: The state of a context that has none yet; each gets a copy.
        **options: What an `AgentSession` also takes: instructions, profile, on_notice, strict, tag, rebase_policy,
            style, prices, clock.

    Raises:
        SchemaError: `schema`, `state` or `initial` is something else.
    """

    def __init__(
        self,
        schema: type[StateT],
        *,
        state: Callable[[], StateT] | None = None,
        initial: StateT | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        if not (isinstance(schema, type) and issubclass(schema, TrackedState)):  # pyright: ignore[reportUnnecessaryIsInstance]
            given = schema.__name__ if isinstance(schema, type) else f"an instance of {type(schema).__name__}"
            raise SchemaError(f"ContextSession takes a class derived from TrackedState, not {given}")
        if initial is not None and not isinstance(initial, schema):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SchemaError(f"initial: a {schema.__name__} is needed, not a {type(initial).__name__}")
        if state is not None and (isinstance(state, type | TrackedState) or not callable(state)):
            raise SchemaError(f"state: a function that returns a {schema.__name__}; for one to begin with use initial")
        self._schema = schema
        self._read = state
        self._initial = initial
        self.options: SessionOptions = options
        self._told: Lately[set[tuple[str, str]]] = Lately(set)
        self._turns: Lately[Turns] = Lately(Turns)

    async def get(self, ctx: Context[Any]) -> StateT:
        """The state of a context, as a fresh instance: to change it use `set` or `update`.

        Args:
            ctx: The workflow's context: in a tool its own, before and between runs the one that is passed to `run`.

        Raises:
            StateError: There is none yet, or it does not fit the schema (any more).
        """
        if self._read is not None:
            return self._owned(self._read())
        return self._state(await ctx.store.get(STATE_KEY, default=None))

    async def set(self, ctx: Context[Any], state: StateT) -> None:
        """Replace the state of a context. Its tools stay as they are where the new one leaves them empty.

        Args:
            ctx: The workflow's context.
            state: The state; a copy is kept.

        Raises:
            StateError: It could not be read back as it is; nothing was changed.
            SessionError: The application owns the state.
        """
        self.check_ours()
        data: Mapping[str, object] = dump_state(self._owned(state))
        async with lock_of(ctx.store):
            before = await ctx.store.get(STATE_KEY, default=None)
            if isinstance(before, Mapping):
                data = Tools.carried(self._schema, cast("Mapping[str, object]", before), data)
            await put(ctx.store, STATE_KEY, data)

    async def update(
        self, ctx: Context[Any], patch: Mapping[str, object] | Callable[[StateT], Mapping[str, object]]
    ) -> StateT:
        """Change the state of a context by paths, validated.

        Of tools that run at the same time none is lost, and they count in the order of the model's calls, however they
        finish. A value that is made from another (a counter, a list that grows) takes a function: among calls side by
        side, what was read before counts no longer.

        Args:
            ctx: The workflow's context.
            patch: Path to new value, for instance `{"orders[K417].status": "delivered"}`; `REMOVE` deletes an entry.
                Or a function of the state as it is now that returns such a patch: nothing changes in between.

        Returns:
            The new state.

        Raises:
            StateError: A path or value that does not fit; nothing was changed.
            SessionError: The application owns the state.
        """
        self.check_ours()
        async with lock_of(ctx.store):
            state = self._state(await ctx.store.get(STATE_KEY, default=None))
            state = patched(ctx.store, state, patch)
            await put(ctx.store, STATE_KEY, dump_state(state))
        return state

    async def rebase(self, ctx: Context[Any], reason: str = "requested") -> None:
        """Begin a new epoch with each agent's next call in this context; the reason is recorded and reported."""
        async with lock_of(ctx.store):
            saved = await saved_in(ctx.store)
            rebases = dict.fromkeys(saved["ledgers"], reason)
            await put(ctx.store, SESSION_KEY, {**saved, "rebase": rebases})

    async def report(self, ctx: Context[Any], agent: str = "") -> SessionReport:
        """The totals of a context, and the latest turns of this process with the notices that they led to.

        Args:
            ctx: The workflow's context.
            agent: Which agent of an `AgentWorkflow`, by name.

        Raises:
            SessionError: Other agents have answered in this context, and this one has not.
        """
        saved = await saved_in(ctx.store)
        if saved["ledgers"] and agent not in saved["ledgers"]:
            names = ", ".join(repr(name) for name in sorted(saved["ledgers"]))
            raise SessionError(f"agent: no answer of this one is recorded in this context; there are those of {names}")
        held = HeldRecord(record_of(saved, agent))
        totals = AgentSession(TrackedState(), key=saved["id"], store=held, **self.options).report()
        return self._turns.of(f"{saved['id']}/{agent}").on(totals)

    async def open(self, ctx: Context[Any]) -> ContextTurn:
        """The session of a context, for one model call.

        Raises:
            StateError: There is no state.
            SessionError: The context's memory belongs to another context.
        """
        store = ctx.store
        saved = await saved_in(store)
        claim_memory(await store.get("memory", default=None), saved["id"])
        agent = str(await store.get("current_agent_name", default="") or "")
        held = HeldRecord(record_of(saved, agent))
        session = AgentSession(await self.get(ctx), key=saved["id"], store=held, **self.options)
        if reason := saved.get("rebase", {}).get(agent):
            session.rebase(reason)
        turns = self._turns.of(f"{saved['id']}/{agent}")
        return ContextTurn(store, saved["id"], agent, held, session, turns.note)

    def untold(self, turn: ContextTurn, notices: Sequence[Notice]) -> list[Notice]:
        """Those of some notices that were not reported for this context yet; a strict session raises each time."""
        if self.options.get("strict"):
            return list(notices)
        told = self._told.of(turn.id)
        fresh = [notice for notice in notices if notice.is_event or (notice.code, notice.path) not in told]
        told.update((notice.code, notice.path) for notice in fresh)
        return fresh

    def _state(self, data: object) -> StateT:
        if data is None and self._initial is not None:
            return load_state(self._schema, dump_state(self._initial))
        name = self._schema.__name__
        if not isinstance(data, Mapping):
            raise StateError(
                f"there is no state in this context yet: await session.set(ctx, {name}(...)) before the run, or give "
                "ContextSession an initial one"
            )
        try:
            return load_state(self._schema, cast("Mapping[str, object]", data))
        except StateError as error:
            raise StateError(
                f"the state in this context does not fit {name}, which has perhaps changed since: set a whole one, or "
                f"give new fields defaults ({error})"
            ) from None

    def _owned(self, state: object) -> StateT:
        if not isinstance(state, self._schema):
            raise StateError(f"state: a {self._schema.__name__} is needed, not a {type(state).__name__}")
        return state

    def check_ours(self) -> None:
        """Refuse to change a state that the application owns.

        Raises:
            SessionError: It does.
        """
        if self._read is not None:
            raise SessionError("the application owns this state; change it there, the session reads it")

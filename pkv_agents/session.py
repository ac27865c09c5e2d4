"""A session: one conversation's state, ledger and usage, in the one place where they meet.

    session = AgentSession(shop, key="user-42", instructions=POLICY, store=SQLiteStore("sessions.db"))
    turn = session.plan(messages)            # changes nothing
    reply = call_the_model(wire(turn, messages))
    session.commit(turn, usage=reply.usage)  # only when the call succeeded

The state itself is not stored: the caller's value is the truth, and the ledger knows what the model was told of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Generic, Literal

from ._board import NoticeBoard
from ._checks import check_commit, check_session
from ._open_plans import OpenPlans
from ._rebase import DEFAULT_POLICY, RebasePolicy
from ._report import SessionReport
from ._saved import Saved
from ._source import StateSource, StateT
from ._stored import SessionStore
from ._tally import Tally
from ._walk import snapshot
from .cost import Cost
from .errata import check_tag, new_tag
from .errors import ConflictError, LedgerError, SessionError, StoreError
from .explain import transcript
from .ledger import Ledger
from .merge import MergedPatches
from .messages import Message
from .notices import Notice
from .planning import plan
from .prices import DEFAULT_PRICES, PriceTable
from .profiles import GENERIC, Profile
from .refusals import system_refused, without_system
from .snapshots import Snapshot
from .styles import DEFAULT_STYLE, ErrataStyle
from .turnplan import TurnPlan
from .usage import Usage, normalise_usage
from .wire import wire

MAX_DONE = 32
"""How many recorded plans are known: recording one of them again does nothing."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


class AgentSession(Generic[StateT]):
    """One conversation.

    Args:
        state: The state, owned by the session from now on; or a function that reads the application's own state, which
            is called once for each plan.
        key: The conversation. Two conversations must never share one.
        instructions: The text above the baseline.
        store: Where ledger and usage live between processes; None keeps them in memory.
        profile: What the provider allows; when left out, a wrapper that knows its model passes that to `plan`.
        on_notice: Called with each notice, once for each cause.
        strict: Raise notices instead (for tests and CI), but for advice (`Notice.is_advice`).
        tag: The tag of the blocks; random when left out.
        rebase_policy: When errata are folded into a new baseline.
        style: The wording of baseline and errata.
        prices: What tokens cost.
        clock: Tells the time, with a zone, for fields with a `ttl` and for caches that expire.

    Raises:
        MissingSessionKeyError: The key is empty.
        SchemaError: The state is no TrackedState.
        LedgerError: The stored ledger is damaged or from a newer version; the store is not changed.
    """

    def __init__(
        self,
        state: StateT | Callable[[], StateT],
        *,
        key: str,
        instructions: str = "",
        store: SessionStore | None = None,
        profile: Profile | None = None,
        on_notice: Callable[[Notice], None] | None = None,
        strict: bool = False,
        tag: str | None = None,
        rebase_policy: RebasePolicy = DEFAULT_POLICY,
        style: ErrataStyle = DEFAULT_STYLE,
        prices: PriceTable = DEFAULT_PRICES,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        check_session(key, instructions, profile, rebase_policy, style, prices, store, on_notice, clock)
        self.key = key
        self.instructions = instructions
        self.own_profile = profile
        self.profile = profile if profile is not None else GENERIC
        self.rebase_policy = rebase_policy
        self.style = style
        self._clock = clock
        self._source = StateSource(state)
        self._board = NoticeBoard(key, on_notice, strict)
        self._tally = Tally(prices)
        self._lock = threading.RLock()
        self._rebase: str | None = None
        self._done: deque[TurnPlan] = deque(maxlen=MAX_DONE)
        self._open = OpenPlans()
        self._saved = Saved(key, store)
        self._saved.reload()
        self._tag = check_tag(tag) if tag is not None else new_tag()

    @property
    def state(self) -> StateT:
        """The state: the session's own, or the application's as it is now."""
        return self._source.get()

    @property
    def ledger(self) -> Ledger | None:
        """What was sent so far; None before the first turn."""
        return self._saved.ledger

    @property
    def usage(self) -> Usage:
        """The sum of what was reported."""
        return self._saved.usage

    def update(self, patch: Mapping[str, object] | MergedPatches) -> StateT:
        """Change the state by paths, validated, and return it.

        Args:
            patch: Path to new value, for instance `{"orders[4471].status": "delivered"}`; see `apply_patch`.

        Raises:
            StateError: A path or value that does not fit; nothing was changed.
            SessionError: The application owns the state.
        """
        with self._lock:
            return self._source.update(patch, self._clock())

    def plan(
        self,
        messages: Sequence[Message],
        *,
        profile: Profile | None = None,
        model: str = "",
        notices: Sequence[Notice] = (),
    ) -> TurnPlan:
        """Decide what a request says about the state; see `pkv_agents.plan`.

        A session that another process has taken further in the store is read again first.

        Args:
            messages: The request's messages.
            profile: What the provider of this request allows, when it is not the session's.
            model: Whose cache the request fills; the profile's name when left out.
            notices: What there is to say about that profile; reported with the plan's own.

        Returns:
            The plan. Nothing is recorded until `commit`.

        Raises:
            StrictNoticeError: There is a notice and the session is strict.
        """
        with self._lock:
            failed = self._saved.refresh()
            known = snapshot(self.state)
            made = self._plan(messages, known, profile or self.own_profile or self.profile, model)
            self._open.add(made, messages, known)
        for notice in (*failed, *notices, *made.notices):
            self._board.tell(notice, made.sent.end if notice.is_event else made.epoch.number)
        return made

    def commit(
        self,
        plan: TurnPlan,
        usage: object = None,
        *,
        answer: Message | None = None,
        on_conflict: Literal["raise", "report"] = "raise",
    ) -> None:
        """Record a request after its call succeeded; the same plan twice is recorded once.

        Args:
            plan: The plan that was sent.
            usage: What the provider reported, in any shape that `normalise_usage` reads.
            answer: What the model answered; see `pkv_agents.commit`.
            on_conflict: `report` for wrappers in the middle of a turn: what the call used is counted, its changes are
                told again on the next turn, and there is a notice.

        Raises:
            ConflictError: Another plan, which tells something else, was recorded since this one was made.
            StoreError: It could not be saved; nothing was recorded.
        """
        check_commit(plan, self.key, on_conflict)
        with self._lock:
            if any(plan is done for done in self._done):
                return
            used = normalise_usage(usage)
            cost, notice = self._tally.cost(plan, used), None
            try:
                self._saved.advance(plan, used, cost, answer, self._plan_anew)
                self._record(plan, used, cost)
            except (ConflictError, StoreError, LedgerError) as error:
                if on_conflict == "raise":
                    raise
                notice = self._saved.degrade(plan, used, cost, answer, error)
                if notice.code == "store_failed":
                    self._record(plan, used, cost)
            self._done.append(plan)
            self._open.close(plan)
        if notice is not None:
            self._board.tell(notice, self._saved.turns)

    def _plan_anew(self, plan: TurnPlan) -> TurnPlan | None:
        """The plan of the same request from the ledger as it is now, if that would be the same request."""
        known = self._open.get(plan)
        if known is None:
            return None
        again = self._plan(known.messages, known.state, plan.profile, plan.sent.model)
        return again if wire(again, known.messages) == wire(plan, known.messages) else None

    def without_system(self, plan: TurnPlan) -> TurnPlan:
        """Plan a request anew after its model refused a system turn in it; remembered for the session.

        Args:
            plan: The plan of the refused request (`pkv_agents.refuses_system` tells whether it was).

        Returns:
            The same request with its errata on user and tool messages. (A SessionError when it is not this session's.)
        """
        with self._lock:
            if (known := self._open.close(plan)) is None:
                raise SessionError("this plan is not waiting for an answer in this session; plan the request again")
            self._saved.ledger = without_system(self._saved.ledger, plan.sent.model)
            made = self._plan(known.messages, known.state, plan.profile, plan.sent.model)
            self._open.add(made, known.messages, known.state)
        self._board.tell(system_refused(plan.sent.model), made.epoch.number)
        return made

    def tell(self, notice: Notice, plan: TurnPlan) -> None:
        """Report what a wrapper found out about a planned request, once for each cause in its epoch."""
        self._board.tell(notice, plan.epoch.number)

    def rebase(self, reason: str = "requested") -> None:
        """Begin a new epoch with the next request that succeeds; the reason is recorded and reported."""
        with self._lock:
            self._rebase = reason

    def report(self) -> SessionReport:
        """What changed, what was appended, what the cache served, and the notices."""
        with self._lock:
            return self._tally.report(self._saved, self._board.notices)

    def reset(self) -> None:
        """Forget what the model was told, for a conversation that begins anew; state and account stay.

        Raises ConflictError or StoreError when that could not be saved; nothing was forgotten then.
        """
        with self._lock:
            self._saved.reset()
            self._board.begin_anew()
            self._rebase = None
            self._open.clear()

    def transcript(self, messages: Sequence[Message], *, model: str | None = None) -> str:
        """The exact wire form of a request with these messages, with errata marked. Records and reports nothing.

        It is the form for `model`; when that is left out, for the model of the last request.
        """
        with self._lock:
            name = model if model is not None else (self._done[-1].sent.model if self._done else "")
            profile = self.own_profile or self.profile
            return transcript(self._plan(messages, snapshot(self.state), profile, name), messages)

    def _plan(self, messages: Sequence[Message], state: Snapshot, profile: Profile, model: str) -> TurnPlan:
        return plan(
            self._saved.ledger,
            state,
            messages,
            profile=profile,
            instructions=self.instructions,
            rebase=self._rebase,
            tag=self._tag,
            policy=self.rebase_policy,
            clock=self._clock(),
            confirmed=self._source.confirmed,
            style=self.style,
            model=model,
            key=self.key,
        )

    def _record(self, plan: TurnPlan, usage: Usage, cost: Cost) -> None:
        self.profile = plan.profile
        if not plan.base or any(notice.code == "rebase_requested" for notice in plan.notices):
            self._rebase = None  # done, or nothing to do: a session's first head is as new as can be
        self._tally.add(plan, usage, cost, self._saved.turns)

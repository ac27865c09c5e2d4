"""What a session keeps: its ledger, usage and cost, in memory and in a store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from ._stored import SessionRecord, SessionStore, StoredSession, decode_record, encode_record
from .cost import Cost, add_cost
from .errors import ConflictError, LedgerError, PkvError, PriceError, StoreError
from .ledger import Ledger
from .messages import Message
from .notices import Notice
from .recording import commit
from .turnplan import TurnPlan
from .usage import Usage


class _Count(NamedTuple):
    """What calls that were made add to the account, and the record does not have yet."""

    usage: Usage
    cost: Cost
    turns: int

    def plus(self, other: _Count) -> _Count:
        return _Count(self.usage + other.usage, add_cost(self.cost, other.cost), self.turns + other.turns)


class Saved:
    """The ledger of one session, with what its turns used and cost; the caller holds a lock.

    Args:
        key: The session.
        store: Where they live between processes; None keeps them in memory.
    """

    def __init__(self, key: str, store: SessionStore | None) -> None:
        self.key = key
        self.store = store
        self.ledger: Ledger | None = None
        self.usage = Usage()
        self.cost: Cost | None = None
        self.turns: int = 0
        self._extra: Mapping[str, object] = {}
        self._version = 0
        self._unsaved: _Count | None = None
        self._unsure = ""  # a plan whose saving failed, which may have been saved all the same

    def reload(self) -> None:
        """Take over what the store has, where that is another version than the one that memory goes on from.

        Raises:
            LedgerError: The record is damaged or of a newer version; nothing was changed.
            StoreError: It cannot be read.
        """
        stored = self._load()
        if (stored.version if stored is not None else 0) != self._version:
            self._take(stored)

    def refresh(self) -> list[Notice]:
        """Take over what another process recorded since; what cannot be read is a notice, and memory goes on."""
        try:
            stored = self._load()
            if stored is None and self._version:
                self._take(None)
                return [_DELETED]
            if stored is not None and stored.version != self._version:
                self._take(stored)
        except (StoreError, LedgerError) as error:
            return [Notice("store_failed", mend="the session goes on from memory", message=str(error))]
        return []

    def advance(
        self,
        plan: TurnPlan,
        usage: Usage,
        cost: Cost,
        answer: Message | None,
        plan_anew: Callable[[TurnPlan], TurnPlan | None],
    ) -> None:
        """Record and save a plan, or what it comes to after another process was faster; all or nothing.

        Args:
            plan: The plan that was sent.
            usage: What the call used.
            cost: What it cost.
            answer: What it was answered with.
            plan_anew: Plans the same request from the ledger as it is then; None when that would be another request.

        Raises:
            ConflictError: The other process told something else.
            StoreError: Nothing was saved.
        """
        try:
            self._try(plan, usage, cost, answer)
        except ConflictError:
            self.reload()
            if self._unsure == plan.id and self.ledger is not None and self.ledger.last == plan.id:
                return  # an earlier attempt was saved after all, though the store said otherwise
        else:
            return
        try:  # what told nothing new fits the other process's ledger as it is
            self._try(plan, usage, cost, answer)
        except ConflictError:
            again = plan_anew(plan)
            if again is None:
                raise
            self._try(again, usage, cost, answer)

    def degrade(self, plan: TurnPlan, usage: Usage, cost: Cost, answer: Message | None, error: PkvError) -> Notice:
        """Go on in memory where the store failed; count the call alone where another turn was recorded.

        Returns:
            The notice: `store_failed`, or `commit_conflict`, and then the plan is not recorded.
        """
        if not isinstance(error, ConflictError):
            try:
                self.apply(plan, usage, cost, answer)
                return Notice("store_failed", mend="save again with the next turn", message=str(error))
            except ConflictError:
                pass  # the store had another turn by then
        self.count(usage, cost)  # the call was made, whoever won
        return Notice("commit_conflict", cost="the changes are told again", message=str(error))

    def apply(self, plan: TurnPlan, usage: Usage, cost: Cost, answer: Message | None) -> None:
        """Record a plan in memory alone."""
        self.ledger = commit(self.ledger, plan, answer=answer)
        self._add(_Count(usage, cost, 1))

    def count(self, usage: Usage, cost: Cost) -> None:
        """Count what a call used and cost, whatever became of its plan; saved with the next turn."""
        self._add(_Count(usage, cost, 0))

    def _add(self, count: _Count, *, is_new: bool = True) -> None:
        self.usage = self.usage + count.usage
        self.cost = add_cost(self.cost, count.cost)
        self.turns += count.turns
        if is_new and self.store is not None:
            self._unsaved = count if self._unsaved is None else self._unsaved.plus(count)

    def reset(self) -> None:
        """Forget what was told; the account stays.

        Raises:
            ConflictError: Another process recorded a turn meanwhile.
            StoreError: It could not be saved; nothing was forgotten.
        """
        before = self.ledger
        # What an endpoint refuses is no part of the conversation.
        self.ledger = Ledger(refused=before.refused) if before is not None and before.refused else None
        try:
            self._save()
        except (ConflictError, StoreError):
            self.ledger = before
            raise

    def _try(self, plan: TurnPlan, usage: Usage, cost: Cost, answer: Message | None) -> None:
        before = (self.ledger, self.usage, self.cost, self.turns, self._unsaved)
        try:
            self.apply(plan, usage, cost, answer)
            self._save()
        except (ConflictError, StoreError) as error:
            self.ledger, self.usage, self.cost, self.turns, self._unsaved = before
            if isinstance(error, StoreError):
                self._unsure = plan.id
            raise

    def _take(self, stored: StoredSession | None) -> None:
        if stored is not None:
            record = decode_record(self.key, stored)
            self.ledger, self.usage, self.turns, self._extra = record.ledger, record.usage, record.turns, record.extra
            self.cost = _cost_in(record.extra)
            self._version = stored.version
            if self._unsaved is not None:
                self._add(self._unsaved, is_new=False)
        elif self.store is not None:
            self.ledger, self._extra, self._version = None, {}, 0

    def _load(self) -> StoredSession | None:
        if self.store is None:
            return None
        try:
            return self.store.load(self.key)
        except (StoreError, LedgerError):
            raise
        except Exception as error:  # noqa: BLE001 (a store of the user's may raise anything, and say anything in it)
            raise StoreError(f"the store raised {type(error).__name__}; nothing was read") from None

    def _save(self) -> None:
        if self.store is None:
            return
        extra = {**self._extra, "cost": self.cost.to_dict()} if self.cost is not None else self._extra
        data = encode_record(SessionRecord(self.ledger, self.usage, self.turns, extra))
        try:
            self._version = self.store.save(self.key, data, expected_version=self._version)
            self._unsaved = None
        except (ConflictError, StoreError):
            raise
        except Exception as error:  # noqa: BLE001 (and the answer must not be lost for it)
            raise StoreError(f"the store raised {type(error).__name__}; nothing was saved") from None


_DELETED = Notice(
    "session_deleted",
    cost="the head is rendered anew and the whole conversation is read again",
    message="the session was deleted in the store",
)


def _cost_in(extra: Mapping[str, object]) -> Cost | None:
    """The cost in a record; None where there is none, or one of a form that this library does not know."""
    data = extra.get("cost")
    if not isinstance(data, Mapping):
        return None
    try:
        return Cost.from_dict(cast("Mapping[str, object]", data))
    except PriceError:
        return None

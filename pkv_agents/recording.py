"""Recording a request that succeeded."""

from __future__ import annotations

from dataclasses import replace

from .anchors import digest
from .errors import ConflictError
from .ledger import MAX_EPOCHS, MAX_SENT, Epoch, Ledger, Sent
from .messages import Message
from .turnplan import TurnPlan


def commit(ledger: Ledger | None, plan: TurnPlan, *, answer: Message | None = None) -> Ledger:
    """Record what was sent, after the call succeeded.

    Args:
        ledger: The ledger that the plan was made from.
        plan: The plan.
        answer: What the model answered. It tells apart the branches of a conversation in which one question was
            answered several times; without it, an erratum that came with a later answer stands in all of them.

    Returns:
        A new ledger; the same one when the plan is recorded already.

    Raises:
        ConflictError: Another plan was committed in between.
    """
    current = ledger if ledger is not None else Ledger()
    if ledger is not None and plan.id == current.last != plan.base:
        return current
    sent = replace(plan.sent, answer=digest(answer)) if answer is not None else plan.sent
    if ledger is not None and plan.id == plan.base and _knows(current, plan.epoch):
        epochs = current.epochs
        if plan.base == current.last:  # not one that was slower than others: its epoch is the current one now
            epochs = (*_forgetting(current, plan), _known(current, plan.epoch))
        return replace(current, epochs=epochs, sent=_with_sent(current, sent))
    if plan.base != current.last:
        raise ConflictError("another turn was recorded between plan and commit; plan again from the current ledger")
    return Ledger(
        version=current.version,
        revision=current.revision + 1,
        last=plan.id,
        epochs=(*_forgetting(current, plan), plan.epoch)[-MAX_EPOCHS:],
        sent=_with_sent(current, sent),
        refused=current.refused,
    )


def _forgetting(ledger: Ledger, plan: TurnPlan) -> list[Epoch]:
    """The epochs that stay beside the plan's own."""
    return [] if plan.forgets else [epoch for epoch in ledger.epochs if epoch.number != plan.epoch.number]


def _known(ledger: Ledger, epoch: Epoch) -> Epoch:
    """An epoch as the ledger has it, with errata that were added since."""
    return next(known for known in ledger.epochs if known.number == epoch.number)


def _knows(ledger: Ledger, epoch: Epoch) -> bool:
    """Whether an epoch is one of this ledger's, though errata may have been added to it since."""
    return any(
        (known.number, known.tag, known.baseline_text) == (epoch.number, epoch.tag, epoch.baseline_text)
        for known in ledger.epochs
    )


def _with_sent(ledger: Ledger, sent: Sent) -> tuple[Sent, ...]:
    """The requests, of which an equal one is kept once."""
    name = (sent.end, sent.epoch, sent.model, sent.revision, sent.answer)
    others = (old for old in ledger.sent if (old.end, old.epoch, old.model, old.revision, old.answer) != name)
    return (*others, sent)[-MAX_SENT:]

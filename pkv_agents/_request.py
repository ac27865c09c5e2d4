"""What a request brings along, read once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ._locate import places_of
from ._slots import orphans
from .anchors import History, read_history
from .errors import SessionError
from .ledger import Epoch, Ledger
from .messages import Message
from .profiles import Profile
from .styles import ErrataStyle


@dataclass(frozen=True, slots=True)
class Request:
    """What a request brings along.

    Attributes:
        messages: All messages, as they were given.
        leading: How many system messages stand at their front.
        history: The messages after them.
        orphans: Which of those are tool results without their calls.
        late_systems: Which of those are system messages.
        head: The text above the baseline.
        head_hash: Its name in the ledger.
        profile: What the provider allows, as far as its answers did not show otherwise.
        given: The profile as it was given.
        model: Whose cache it fills.
        clock: The time.
        style: The wording of what is new.
    """

    messages: Sequence[Message]
    leading: int
    history: History
    orphans: tuple[int, ...]
    late_systems: tuple[int, ...]
    head: str
    head_hash: str
    profile: Profile
    given: Profile
    model: str
    clock: datetime | None
    style: ErrataStyle

    @property
    def is_held(self) -> bool:
        """Whether the provider's server holds this conversation's head and history: then neither can be changed."""
        return self.profile.holds_history and any(message.role == "assistant" for message in self.history.messages)

    def system(self, epoch: Epoch) -> str:
        """The whole system text of an epoch."""
        return f"{self.head}\n\n{epoch.baseline_text}" if self.head else epoch.baseline_text


def read_request(
    ledger: Ledger | None,
    messages: Sequence[Message],
    instructions: str,
    *,
    profile: Profile,
    model: str,
    clock: datetime | None,
    style: ErrataStyle,
) -> Request:
    """Read a request's messages, once.

    Raises:
        MessageError: A message is no `Message`, or holds what is not plain data.
        SessionError: The clock has no zone.
    """
    if clock is not None and clock.utcoffset() is None:
        raise SessionError("clock: a time with a zone, for instance datetime.now(UTC)")
    model = model or profile.name
    is_refused = ledger is not None and model in ledger.refused
    leading = 0
    while leading < len(messages) and getattr(messages[leading], "role", "") == "system":
        leading += 1
    rest = messages[leading:] if leading else messages
    history = read_history(rest, places_of(ledger) if ledger is not None else ())
    roles = [message.role for message in rest]  # most hold no tool result and no late system message: one look each
    head = "\n\n".join(text for text in (instructions, *(message.text for message in messages[:leading])) if text)
    return Request(
        messages=messages,
        leading=leading,
        history=history,
        orphans=orphans(rest) if "tool" in roles else (),
        late_systems=tuple(at for at, role in enumerate(roles) if role == "system") if "system" in roles else (),
        head=head,
        head_hash=hashlib.sha256(head.encode("utf-8", "surrogatepass")).hexdigest()[:16],
        profile=replace(profile, carrier="user_suffix") if is_refused else profile,
        given=profile,
        model=model,
        clock=clock,
        style=style,
    )

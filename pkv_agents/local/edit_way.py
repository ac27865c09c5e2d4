"""How a changed head reaches the cache, as one word of an option.

| `edit_mode` | the head changed since the session's last request: what is computed | the answer is |
|---|---|---|
| `erratum` | everything behind the change (a session that tells by errata never changes its head) | exact |
| `full` | everything behind the change; skills are prefilled too | exact |
| `in_place` | the lines that changed | approximate |
| `field_erratum` | the same; the request also holds an erratum, which the session puts there | approximate |
| `selective@K` | these lines and the K later tokens to which the new turn attends most | approximate |
| `stale` | nothing: the model goes on with the old head. A control for measurements, never for users | wrong |
| `auto` | as `in_place` where a verdict allows each changed field, else as `full` | either |

`selective@K` ranks by the request's own new tokens, which hold the question. It is in the literature and it is not
reliable: what matters is spread over more tokens than attention shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pkv_agents.errors import OptionsError

EDIT_MODES = ("erratum", "full", "in_place", "field_erratum", "selective", "stale", "auto")
"""The words; `selective` is followed by `@` and a number of tokens."""

_SELECTIVE = re.compile(r"selective@(\d{1,6})")


@dataclass(frozen=True, slots=True)
class EditWay:
    """An edit mode, taken apart.

    Attributes:
        mode: One of `EDIT_MODES`.
        keep: Tokens that `selective` computes beside the changed ones.
    """

    mode: str
    keep: int = 0

    @property
    def edits(self) -> bool:
        """Whether the cache of a session is edited, so that answers may rest on an approximation."""
        return self.mode not in {"erratum", "full"}


def edit_way(text: str) -> EditWay:
    """Reads an option.

    Raises:
        OptionsError: It is none of the modes.
    """
    if found := _SELECTIVE.fullmatch(text):
        return EditWay("selective", int(found[1]))
    if text in EDIT_MODES and text != "selective":
        return EditWay(text)
    raise OptionsError(f"edit_mode is one of {', '.join(EDIT_MODES)}, where selective is written as selective@64")

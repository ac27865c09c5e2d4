"""A skill: a text that a model reads when it needs it, with the name by which it is asked for."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import cast

from ..errors import SkillError
from ..escape import MAX_CHARACTERS
from ..notices import Notice
from ..tokens import estimate_tokens

MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
ADVISED_TOKENS = 5000
ADVISED_LINES = 500
"""The limits of the Agent Skills format, as its specification gives them (agentskills.io/specification).

The two that are advised are reported; the others are errors.
"""

_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill, in one canonical form: equal skills have equal bytes, however they were written down.

    Attributes:
        name: Lower-case letters, digits and single hyphens, at most 64 characters.
        description: What it does and when to use it, at most 1024 characters; one line in the catalogue.
        body: Its text. Line ends become line feeds; blank lines at either end go.
        version: For people; what a model reads is named by `fingerprint`.
        tags: Words by which `SkillRegistry.tagged` chooses.
        needs: Names of skills without which this one is not understood. They stand in its block: facts that refer to
            each other must not be split.
        trusted: Its text is the application's own word. Otherwise it is marked as written by others, and quoted.
        pinned: It is active from the start, and stays so.
        resources: Paths of further files, relative to `folder`, which are read when asked for.
        folder: Where those are; empty for a skill without files.

    Raises:
        SkillError: It breaks the format; the message names the field and the mend.
    """

    name: str
    description: str
    body: str
    version: str = ""
    tags: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    trusted: bool = True
    pinned: bool = False
    resources: tuple[str, ...] = ()
    folder: str = ""

    def __post_init__(self) -> None:
        """Check the format and bring the texts into one form."""
        check_name(self.name)
        for field in ("description", "body", "version"):
            _check_text(self.name, field, getattr(self, field))
        object.__setattr__(self, "description", _SPACES.sub(" ", self.description).strip())
        object.__setattr__(self, "body", canonical_body(self.body))
        for field in ("tags", "needs", "resources"):
            if isinstance(getattr(self, field), str):
                raise SkillError(f"skill {self.name!r}: {field} is a str; pass a tuple, {field}=('...',)")
            object.__setattr__(self, field, tuple(getattr(self, field)))
        if not 1 <= len(self.description) <= MAX_DESCRIPTION:
            raise SkillError(
                f"skill {self.name!r}: description has {len(self.description)} characters; "
                f"the format takes 1 to {MAX_DESCRIPTION}, and the rest belongs into the body"
            )
        if not self.body:
            raise SkillError(f"skill {self.name!r}: body is empty; write what the model should know")

    @property
    def fingerprint(self) -> str:
        """Names what a model reads of it: 16 hexadecimal digits, the same in every process."""
        seen = json.dumps([self.name, self.description, self.body, self.trusted], ensure_ascii=True)
        return hashlib.sha256(seen.encode()).hexdigest()[:16]

    def tokens(self, count: Callable[[str], int] = estimate_tokens) -> int:
        """How many tokens its body has.

        Args:
            count: Counts a text; an estimate when left out.
        """
        return count(self.body)

    def notices(self) -> tuple[Notice, ...]:
        """What the format advises against."""
        tokens, lines = self.tokens(), self.body.count("\n") + 1
        if tokens < ADVISED_TOKENS and lines <= ADVISED_LINES:
            return ()
        return (
            Notice(
                "skill_long",
                path=self.name,
                cost=f"about {tokens:,} tokens in {lines:,} lines, each time that it is loaded",
                mend="move what is seldom needed into files of its folder, and name them in the text",
                message=f"the format advises less than {ADVISED_TOKENS:,} tokens and {ADVISED_LINES} lines",
            ),
        )


def canonical_body(text: str) -> str:
    """A text with line feeds only, without blank lines or a byte order mark at its ends."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    return "\n".join(lines).rstrip()


def check_name(name: object) -> str:
    """A skill's name, if it is one.

    Raises:
        SkillError: The format does not allow it.
    """
    if not isinstance(name, str):
        raise SkillError(
            f"a skill's name is a {type(name).__name__}; the format wants text, in quotes where YAML needs it"
        )
    if not 1 <= len(name) <= MAX_NAME:
        raise SkillError(f"skill {name[:80]!r}: name has {len(name)} characters; the format takes 1 to {MAX_NAME}")
    allowed = all(char == "-" or (char.isalnum() and char == char.lower()) for char in name)
    if not allowed or name.startswith("-") or name.endswith("-") or "--" in name:
        raise SkillError(
            f"skill {name!r}: a name has lower-case letters, digits and single hyphens between them; "
            f"rename it, for instance {_suggested(name)!r}"
        )
    return name


def _suggested(name: str) -> str:
    """The nearest name that the format allows."""
    plain = unicodedata.normalize("NFKC", name).lower()
    return re.sub(r"-+", "-", "".join(char if char.isalnum() else "-" for char in plain)).strip("-") or "my-skill"


def _check_text(name: str, field: str, text: object) -> None:
    if not isinstance(text, str):
        raise SkillError(f"skill {name!r}: {field} is a {type(text).__name__}; pass text")
    if len(text) > MAX_CHARACTERS:
        raise SkillError(
            f"skill {name!r}: {field} has {len(text):,} characters, and {MAX_CHARACTERS:,} is the most; "
            "move parts of it into files of its folder"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SkillError(f"skill {name!r}: {field} has half of a surrogate pair; decode it first") from None
    if "\x00" in text:
        raise SkillError(f"skill {name!r}: {field} has a NUL character, so it is no text")


def only_skills(given: object) -> Iterator[Skill]:
    """What was given, if it is skills: a folder's path, or one skill alone, is the usual mistake.

    Raises:
        SkillError: It is not.
    """
    listed = isinstance(given, Iterable) and not isinstance(given, str)
    parts = cast("Iterable[object]", given if listed else (given,))
    for part in parts:
        if not (listed and isinstance(part, Skill)):
            raise SkillError(
                f"skills: a list of Skill is needed, and here is a {type(part).__name__}; "
                "a folder is read by SkillRegistry(load_skills(folder))"
            )
        yield part


def check_options(field: object, budget: object, count: object) -> None:
    """Refuse what would only fail when a model loads a skill.

    Raises:
        SkillError: One of a registry's options is something else.
    """
    if not isinstance(field, str):
        raise SkillError(f"field: the path of the state's Skills, field='skills', not a {type(field).__name__}")
    if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget < 0):
        given = "less than 0" if isinstance(budget, int) and budget < 0 else f"a {type(budget).__name__}"
        raise SkillError(f"budget: how many tokens, budget=8000, or None for any number, not {given}")
    counted: object = count("a") if callable(count) else None
    if not isinstance(counted, Real):
        given = f"one to a {type(counted).__name__}" if callable(count) else f"a {type(count).__name__}"
        raise SkillError(f"count: a function from a text to its number of tokens, not {given}")


__all__ = ["Skill", "check_options", "only_skills"]

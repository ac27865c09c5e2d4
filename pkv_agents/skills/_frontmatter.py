"""The front of a SKILL.md: YAML between two lines of three hyphens, read as data only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ..errors import SkillError
from ._skill import MAX_COMPATIBILITY

MAX_CHARACTERS = 64_000
"""The longest front that is parsed: its fields together may have about 1,600 by the format's own limits."""


def split_front(text: str, where: str) -> tuple[Mapping[str, object], str]:
    """The fields at the front of a file, and the text after them.

    Args:
        text: The file, with line feeds only.
        where: What names it in an error.

    Raises:
        SkillError: There is no front, it is not closed, too long, or no YAML map.
        ImportError: PyYAML is not installed.
    """
    first, _, rest = text.removeprefix("\ufeff").partition("\n")
    if first.rstrip() != "---":
        raise SkillError(f"{where} does not begin with frontmatter; its first line is '---', then name and description")
    front: list[str] = []
    lines = rest.split("\n")
    for at, line in enumerate(lines):
        if line.rstrip() == "---":
            return _fields("\n".join(front), where), "\n".join(lines[at + 1 :])
        front.append(line)
    raise SkillError(f"{where}: the frontmatter is not closed; end it with a line '---'")


def _fields(front: str, where: str) -> Mapping[str, object]:
    if len(front) > MAX_CHARACTERS:
        raise SkillError(f"{where}: the frontmatter has {len(front):,} characters; the text belongs below it")
    try:
        import yaml
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise ImportError("SKILL.md files need PyYAML: pip install 'pkv-agents[skills]'") from None
    try:
        found: object = yaml.safe_load(front)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 2}" if mark is not None else ""
        raise SkillError(
            f"{where}: the frontmatter is no YAML{line}; put a text with ': ' or '#' in it in quotes"
        ) from None
    except (RecursionError, ValueError):
        raise SkillError(
            f"{where}: the frontmatter is nested too deeply or has a value that YAML cannot read"
        ) from None
    if not isinstance(found, dict):
        raise SkillError(
            f"{where}: the frontmatter is a {type(found).__name__}; write 'name: ...' and 'description: ...'"
        )
    return {str(name): value for name, value in cast("dict[object, object]", found).items()}


def text_field(fields: Mapping[str, object], name: str, where: str) -> str:
    """A field that must be there and be text."""
    value = fields.get(name)
    if value is None:
        raise SkillError(f"{where}: the frontmatter has no {name}; the format requires it")
    if not isinstance(value, str):
        raise SkillError(f"{where}: {name} is read as a {type(value).__name__}; put it in quotes")
    return value


def check_optional(fields: Mapping[str, object], where: str) -> dict[str, str]:
    """Hold the optional fields to the format's limits, and give its metadata.

    Raises:
        SkillError: One of them breaks the format.
    """
    compatibility = fields.get("compatibility")
    if compatibility is not None:
        if not isinstance(compatibility, str):
            raise SkillError(f"{where}: compatibility is a {type(compatibility).__name__}; put it in quotes")
        if not 1 <= len(compatibility) <= MAX_COMPATIBILITY:
            raise SkillError(
                f"{where}: compatibility has {len(compatibility)} characters; the format takes 1 to {MAX_COMPATIBILITY}"
            )
    licence = fields.get("license")
    if licence is not None and not isinstance(licence, str):
        raise SkillError(f"{where}: license is a {type(licence).__name__}; put it in quotes")
    allowed = fields.get("allowed-tools")
    listed = cast("list[object]", allowed) if isinstance(allowed, list) else [allowed]
    if not all(item is None or isinstance(item, str) for item in listed):
        raise SkillError(f"{where}: allowed-tools is a text with spaces between the tools, or a list of texts")
    metadata: object = fields.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise SkillError(
            f"{where}: metadata is a {type(fields['metadata']).__name__}; the format wants names and texts"
        )
    made: dict[str, str] = {}
    for name, value in cast("dict[object, object]", metadata).items():
        # `version: 1.0` is a number in YAML, and everybody writes it so; what is no scalar is a mistake.
        if isinstance(value, (dict, list)):
            raise SkillError(f"{where}: metadata.{name} is a {type(cast('object', value)).__name__}; put it in quotes")
        made[str(name)] = "" if value is None else str(value)
    return made

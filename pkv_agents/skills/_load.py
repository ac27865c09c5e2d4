"""Reading skills from folders in the Agent Skills format. The only files that are read are those inside the folders.

    refunds/
        SKILL.md            frontmatter (name, description, ...) and the text
        references/...      further files, read when a model asks for one

Under `metadata` a front may say `version`, `pkv-tags`, `pkv-needs` (names with spaces between them) and `pkv-pinned`
(true or false). What stands under `allowed-tools` is checked and not acted on: which tools a skill may use is the
application's decision.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ..errors import SkillError
from ._frontmatter import check_optional, split_front, text_field
from ._skill import Skill

FILE = "SKILL.md"
MAX_BYTES = 1_000_000
"""The longest file that is read; a skill of a hundredth of this is a long one."""
MAX_RESOURCES = 1_000


def load_skill_folder(folder: str | Path, *, trusted: bool = True) -> Skill:
    """Read one skill.

    Args:
        folder: The folder, which has the skill's name.
        trusted: Whether its text is as good as the application's own instructions. For a folder that came from
            elsewhere say False: its text is then quoted, and marked as written by others.

    Returns:
        The skill, with the paths of its further files, none of which was read.

    Raises:
        SkillError: It breaks the format, or a file is too large, no text, or a link that leads elsewhere.
        ImportError: PyYAML is not installed (the extra `skills`).
    """
    home = Path(folder)
    where = f"{home.name}/{FILE}"
    text = _read(home, FILE, where)
    fields, body = split_front(text.replace("\r\n", "\n").replace("\r", "\n"), where)
    name = text_field(fields, "name", where)
    extra = check_optional(fields, where)
    skill = Skill(
        name=name,
        description=text_field(fields, "description", where),
        body=body,
        version=extra.get("version", ""),
        tags=tuple(extra.get("pkv-tags", "").split()),
        needs=tuple(extra.get("pkv-needs", "").split()),
        trusted=trusted,
        pinned=_flag(extra.get("pkv-pinned", ""), where),
        resources=tuple(_resources(home)),
        folder=str(home.absolute()),
    )
    if home.resolve().name != name and home.name != name:
        raise SkillError(f"skill {name!r} stands in a folder named {home.name!r}; the format wants one name for both")
    return skill


def load_skills(root: str | Path, *, trusted: bool = True) -> tuple[Skill, ...]:
    """Read all skills below a folder: those of its folders that have a SKILL.md.

    Args:
        root: The folder with the skills' folders.
        trusted: See `load_skill_folder`.

    Returns:
        The skills, by name.

    Raises:
        SkillError: There is no such folder, or it is a skill itself, or one of the skills breaks the format.
        ImportError: PyYAML is not installed (the extra `skills`).
    """
    home = Path(root)
    if not home.is_dir():
        raise SkillError(f"skills folder {home.name!r}: there is no such folder; name the one with the skills' folders")
    folders = sorted(path for path in home.iterdir() if path.is_dir() and (path / FILE).is_file())
    if not folders and (home / FILE).is_file():
        raise SkillError(
            f"folder {home.name!r} is a skill itself; name the folder above it, or read it by load_skill_folder"
        )
    return tuple(sorted((load_skill_folder(path, trusted=trusted) for path in folders), key=lambda skill: skill.name))


def read_resource(skill: Skill, path: str) -> str:
    """Read one further file of a skill.

    Args:
        skill: A skill that was read from a folder.
        path: The file's path below that folder, as `Skill.resources` has it.

    Returns:
        Its text, with line feeds only. It may have been written by others: a request neutralises it as a tool's result.

    Raises:
        SkillError: The path leads out of the folder (by `..`, by a link, from the root), or names no file, or the file
            is too large or no text.
    """
    if not skill.folder:
        raise SkillError(f"skill {skill.name!r} has no files")
    return _read(Path(skill.folder), path, f"skill {skill.name!r}: file {path[:200]!r}").replace("\r\n", "\n")


def _read(home: Path, path: str, where: str) -> str:
    """A text file below a folder, looked at before it is opened."""
    parts = PurePosixPath(path).parts
    if not parts or "\\" in path or "\x00" in path or PurePosixPath(path).is_absolute() or ".." in parts:
        raise SkillError(f"{where} is no path inside the skill's folder; use one as 'references/limits.md'")
    place = home.joinpath(*parts)
    try:
        if any(home.joinpath(*parts[: depth + 1]).is_symlink() for depth in range(len(parts))):
            raise SkillError(f"{where} is a link; put the file itself into the skill's folder")
        seen = place.stat()
        if not stat.S_ISREG(seen.st_mode):
            raise SkillError(f"{where} is no file")
        if seen.st_size > MAX_BYTES:
            raise SkillError(f"{where} has {seen.st_size:,} bytes, and {MAX_BYTES:,} is the most; split it")
        # Not followed even if it became a link since it was looked at.
        with os.fdopen(os.open(place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SkillError(
            f"{where} cannot be read ({type(error).__name__}); a skill is a folder with a {FILE}"
        ) from None
    if b"\x00" in data:
        raise SkillError(f"{where} is binary data; a model reads text only")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SkillError(f"{where} is no UTF-8 text (byte {error.start:,}); save it as UTF-8") from None


def _resources(home: Path) -> list[str]:
    """The further files, in order; links are passed over."""
    found: list[str] = []
    for path in _walk(home):
        if len(found) == MAX_RESOURCES:
            raise SkillError(f"skill folder {home.name!r} has more than {MAX_RESOURCES:,} files; move some elsewhere")
        found.append(path.relative_to(home).as_posix())
    return sorted(found)


def _walk(home: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(home, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            place = Path(folder, name)
            if not name.startswith(".") and not place.is_symlink() and place != home / FILE:
                yield place


def _flag(text: str, where: str) -> bool:
    if text.lower() not in ("", "true", "false"):
        raise SkillError(f"{where}: metadata.pkv-pinned is true or false")
    return text.lower() == "true"


__all__ = ["load_skill_folder", "load_skills", "read_resource"]

"""What there is to say when a conversation's skills were brought up to a registry that has changed since it began."""

from __future__ import annotations

from ..notices import Notice
from ._registry import Patch, SkillRegistry
from ._state import Skills


def skills_refreshed(registry: SkillRegistry, skills: Skills, patch: Patch) -> Notice | None:
    """The notice for a patch of `SkillRegistry.refresh`.

    Args:
        registry: The skills that there are.
        skills: What the conversation had before.
        patch: What `registry.refresh(skills)` gave.

    Returns:
        Advice, since nothing of the prefix moves; None where nothing changed, or the conversation had no skills yet.
    """
    if not patch or not (skills.available or skills.active):
        return None
    paths = sorted(patch)
    more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
    return Notice(
        "skills_refreshed",
        path=registry.field,
        cost=f"{len(paths)} changes are told by an update; what was sent stays",
        mend="none is needed; keep one registry for a conversation where its skills should not change",
        message=f"the registry is another than the conversation knows: {', '.join(paths[:5])}{more}",
    )


__all__ = ["skills_refreshed"]

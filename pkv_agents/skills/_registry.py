"""The registry: which skills there are, and the patches that change what a conversation has of them.

    load      "skills.active[refunds]": its text        the model is told by an appended update
    retire    it is removed                             it is told that it is gone
    refresh   what changed since                        the new version, whole or by what changed in it

Nothing here knows a session. A patch is plain data for `AgentSession.update`, `apply_patch` or a graph's write, so
undo, forks, parallel writes and failures are what they are for every other field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..errata import standing, update_line
from ..errors import SkillError
from ..escape import json_string
from ..notices import Notice
from ..paths import canonical_path, join_field, join_key, parse_path
from ..state import TrackedState
from ..styles import DEFAULT_STYLE, ErrataStyle
from ..tokens import estimate_tokens
from ._fields import only
from ._skill import Skill, check_options, only_skills
from ._state import OutsideText, Skills, SkillText, changed_notice, plain_text, text_of

Patch = dict[str, object]
"""Path to new value, as `apply_patch` takes it; plain data."""

_GONE: Mapping[str, object] = {"$remove": True}


@dataclass(frozen=True, slots=True, init=False)
class SkillRegistry:
    """The skills that an agent can use.

    Args:
        skills: The skills, in any order; they are kept by name.
        field: The path of the `Skills` field in the state.
        budget: How many tokens all active skills may have together; None: any number.
        count: Counts the tokens of a text, for instance `token_counter(model).count`; an estimate when left out.

    Raises:
        SkillError: It is no list of skills, two have one name, one needs another that is not there, or a circle; or an
            option is something else.
    """

    skills: tuple[Skill, ...] = ()
    field: str = "skills"
    budget: int | None = None
    count: Callable[[str], int] = estimate_tokens

    def __init__(
        self,
        skills: Iterable[Skill] = (),
        *,
        field: str = "skills",
        budget: int | None = None,
        count: Callable[[str], int] = estimate_tokens,
    ) -> None:
        named: dict[str, Skill] = {}
        for skill in only_skills(skills):
            if named.setdefault(skill.name, skill) is not skill:
                raise SkillError(
                    f"two skills have the name {skill.name!r}; rename one, or use `replaced` for a new version"
                )
        check_options(field, budget, count)
        object.__setattr__(self, "skills", tuple(named[name] for name in sorted(named)))
        object.__setattr__(self, "field", canonical_path(field))
        object.__setattr__(self, "budget", budget)
        object.__setattr__(self, "count", count)
        for skill in self.skills:
            self._closure(skill.name)

    def __iter__(self) -> Iterator[Skill]:
        """The skills, by name."""
        return iter(self.skills)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.skills)

    def __contains__(self, name: object) -> bool:
        """Whether there is a skill of this name."""
        return any(skill.name == name for skill in self.skills)

    def __getitem__(self, name: str) -> Skill:
        """The skill of this name; a SkillError when there is none."""
        found = next((skill for skill in self.skills if skill.name == name), None)
        if found is None:
            known = ", ".join(skill.name for skill in self.skills) or "none"
            raise SkillError(f"there is no skill {str(name)[:80]!r}; there are: {known}")
        return found

    def added(self, *skills: Skill) -> SkillRegistry:
        """A registry with more skills; a SkillError when a name is taken."""
        return self._with((*self.skills, *skills))

    def replaced(self, *skills: Skill) -> SkillRegistry:
        """A registry with new versions of skills that it has."""
        for skill in only_skills(skills):
            _ = self[skill.name]
        new = {skill.name: skill for skill in skills}
        return self._with(new.get(skill.name, skill) for skill in self.skills)

    def without(self, *names: str) -> SkillRegistry:
        """A registry without some skills; a SkillError when another needs them."""
        return self._with(skill for skill in self.skills if skill.name not in names)

    def tagged(self, *tags: str) -> SkillRegistry:
        """A registry of the skills that have one of these tags, and of those that they need."""
        wanted = {skill.name for skill in self.skills if set(tags) & set(skill.tags)}
        kept = {part.name for name in wanted for part in self._closure(name)}
        return self._with(skill for skill in self.skills if skill.name in kept)

    def block(self, name: str) -> str:
        """What a model reads when it loads a skill: its text behind those of the skills that it needs."""
        parts = self._closure(name)
        if len(parts) == 1:
            return parts[0].body
        return "\n\n".join(f"# Skill: {part.name}\n\n{part.body}" for part in parts)

    def head_text(self, name: str) -> str:
        """A skill's block exactly as it stands in a head, with its line end: what a compiled skill is made of.

        Raises:
            SkillError: It is unknown, or not trusted: such a one stands among the session's own state.
        """
        if not self.is_trusted(name):
            raise SkillError(f"skill {name!r} is not trusted, so it has no place in the part that sessions share")
        path, text = self._path("active", name), json_string(self.block(name))
        return f"{standing(path, text)}\n" if "\n" in self.block(name) else f"{path}: {text}\n"

    def appended_text(self, name: str, *, style: ErrataStyle = DEFAULT_STYLE) -> str:
        """A skill's line exactly as an erratum tells it when it is loaded in mid-session, with its line end.

        Args:
            name: Its name.
            style: The session's wording.

        Raises:
            SkillError: It is unknown, or not trusted.
        """
        if not self.is_trusted(name):
            raise SkillError(f"skill {name!r} is not trusted, and the texts of others are not compiled ahead")
        return f"{update_line(self._path('active', name), json_string(self.block(name)), style=style)}\n"

    def is_trusted(self, name: str) -> bool:
        """Whether all of a skill's block is the application's own word."""
        return all(part.trusted for part in self._closure(name))

    def tokens(self, name: str) -> int:
        """How many tokens a skill's block has."""
        return self.count(self.block(name))

    def notices(self) -> tuple[Notice, ...]:
        """What the format advises against, of all skills."""
        return tuple(notice for skill in self.skills for notice in skill.notices())

    def start(self, *names: str) -> Skills:
        """What a conversation begins with: the catalogue, the pinned skills, and those that are named.

        Raises:
            SkillError: One is unknown, or they are more than the budget.
        """
        active = dict.fromkeys(sorted({*names, *(skill.name for skill in self.skills if skill.pinned)}))
        made = Skills(available=self._catalogue(), active={name: self._told(name) for name in active})
        self._check_budget(made, "the skills at the start")
        return made

    def load(self, name: str, skills: Skills) -> Patch:
        """The patch that makes a skill active, in the version that is here; empty when it is that already.

        Args:
            name: Its name.
            skills: What the conversation has now.

        Raises:
            SkillError: It is unknown, or does not fit the budget; the message says what could be retired.
        """
        told = self._told(name)
        if only(Skills, skills).active.get(name) == told:
            return {}
        self._check_budget(Skills(active={**skills.active, name: told}), f"skill {name!r}")
        return {self._path("active", name): plain_text(told)}

    def retire(self, name: str, skills: Skills) -> Patch:
        """The patch that takes a skill out of use; empty when it is not active.

        Raises:
            SkillError: It is pinned.
        """
        if name in self and self[name].pinned:
            raise SkillError(f"skill {name!r} is pinned; take it out of the registry, or do not pin it")
        return {self._path("active", name): dict(_GONE)} if name in only(Skills, skills).active else {}

    def refresh(self, skills: Skills) -> Patch:
        """The patch that brings a conversation up to this registry.

        New versions replace old ones, skills that are no longer here are retired, pinned ones are loaded, and the
        catalogue is brought up to date. A long text of which little changed is told by what changed in it. No budget is
        held against a new version: the old one would be wrong.
        """
        pinned = {skill.name for skill in self.skills if skill.pinned}
        kept = pinned | {name for name in only(Skills, skills).active if name in self}
        active = {name: self._told(name) for name in sorted(kept)}
        return {
            **self._moved("available", skills.available, self._catalogue()),
            **self._moved("active", skills.active, active),
        }

    def changes_for(self, state: TrackedState) -> tuple[Patch, tuple[Notice, ...]]:
        """What an adapter does before each call: `refresh`, and the notice that says which skills changed.

        The registry may be another than the one that the conversation began with: a skill was edited meanwhile, or the
        conversation goes on in a process that was deployed since.

        Args:
            state: The conversation's state.

        Returns:
            The patch, and the notices; both empty when nothing changed. A conversation that has no skills yet begins as
            `start()` would make it, which is no change to speak of.

        Raises:
            SchemaError: The state has no `Skills` where the registry looks for them.
        """
        skills = Skills.at(state, self.field)
        patch, begun = self.refresh(skills), bool(skills.available or skills.active)
        names = sorted({parse_path(path)[-1].text for path in patch})
        return patch, (changed_notice(names),) if names and begun else ()

    def active_tokens(self, skills: Skills) -> int:
        """How many tokens a conversation's active skills have."""
        return sum(self.count(text_of(value)) for value in only(Skills, skills).active.values())

    def _with(self, skills: Iterable[Skill]) -> SkillRegistry:
        return SkillRegistry(skills, field=self.field, budget=self.budget, count=self.count)

    def _closure(self, name: str) -> list[Skill]:
        """A skill behind all that it needs, each once."""
        found: dict[str, Skill] = {}
        way: list[str] = []

        def visit(one: str) -> None:
            if one in way:
                circle = " -> ".join([*way[way.index(one) :], one])
                raise SkillError(f"skills need each other in a circle: {circle}; join them, or take one need away")
            if one in found:
                return
            if way and one not in self:
                raise SkillError(f"skill {way[-1]!r} needs {one!r}, which is not in the registry; add it")
            skill = self[one]
            way.append(one)
            for need in skill.needs:
                visit(need)
            way.pop()
            found[one] = skill

        visit(name)
        return list(found.values())

    def _told(self, name: str) -> SkillText:
        return self.block(name) if self.is_trusted(name) else OutsideText(text=self.block(name))

    def _catalogue(self) -> dict[str, SkillText]:
        return {
            skill.name: skill.description if skill.trusted else OutsideText(text=skill.description)
            for skill in self.skills
            if not skill.pinned
        }

    def _moved(self, part: str, old: Mapping[str, SkillText], new: Mapping[str, SkillText]) -> Patch:
        gone: Patch = {self._path(part, name): dict(_GONE) for name in old if name not in new}
        return gone | {self._path(part, name): plain_text(text) for name, text in new.items() if old.get(name) != text}

    def _path(self, part: str, name: str) -> str:
        return join_key(join_field(self.field, part), name)

    def _check_budget(self, skills: Skills, what: str) -> None:
        if self.budget is None or (tokens := self.active_tokens(skills)) <= self.budget:
            return
        may_go = [n for n in skills.active if n in self and not self[n].pinned and what != f"skill {n!r}"]
        mend = f"retire one of: {', '.join(may_go)}" if may_go else "raise the budget, or load a shorter one"
        raise SkillError(f"with {what} {tokens:,} tokens would be active, and the budget is {self.budget:,}; {mend}")


__all__ = ["SkillRegistry"]

"""One turn of an agent on a local model: the session decides what is told, the model's cache is made to hold it.

    talk = Conversation(model, session, edit_mode="in_place", skills=[RETURNS])
    session.update({"orders[4471].status": "delivered"})
    turn = talk.answer(messages)          # plan, edit or tell, generate, commit

| `edit_mode` | a change of a field that the head shows | what the ledger records |
|---|---|---|
| `erratum` | is told by an erratum behind the transcript | an erratum |
| `in_place`, `selective@K` | rewrites the head, and its line in the cache | a new epoch with the new value |
| `field_erratum` | both | a new epoch, and an erratum that says the same |
| `full` | rewrites the head; everything behind it is prefilled | a new epoch |
| `auto` | as `in_place` where a verdict allows every changed field, else as `erratum` | either |

So what the model was told equals the state in every mode: the ledger never says that the head holds a value that the
rendered head does not hold. What differs is how the cache came to hold it, and the turn says that. A conversation that
goes on in another process finds no edited cache: its first turn is a clean prefill of the same head.

| notice | what happened |
|---|---|
| `kv_approximate` | the answer rests on keys and values that were edited or composed |
| `kv_prefilled` | an edit was wanted, but what it would edit was gone or too different: a clean prefill, exact |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from pkv_agents.errors import OptionsError, UnsupportedModelError
from pkv_agents.local.edit_way import edit_way
from pkv_agents.local.model import LocalModel
from pkv_agents.local.options import OptionFields, Reply
from pkv_agents.messages import Message
from pkv_agents.notices import Notice
from pkv_agents.paths import is_below
from pkv_agents.session import AgentSession
from pkv_agents.skills import SkillRegistry
from pkv_agents.turnplan import Insertion, TurnPlan
from pkv_agents.wire import wire

EDITED = "edited in place"
"""How the reason begins for which an epoch was begun by an edit."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answered turn.

    Attributes:
        reply: The answer; `reply.grade` says whether it is exact.
        plan: What was sent, as it was recorded.
    """

    reply: Reply
    plan: TurnPlan


class Conversation:
    """One conversation on a local model. One turn at a time.

    Args:
        model: The model.
        session: The conversation's session.
        edit_mode: What a changed field does; see the table above.
        skills: What is put in place from compiled keys and values: texts in the session's instructions, or a registry,
            whose trusted skills are put in place where they stand in the head.
        later_skills: Of a registry, also those that an erratum loads in mid-session. The first token comes many times
            sooner, but a skill that is put in place behind the question has not read it: measure whether it decides.
        qualified: Refuse a mode that the model's qualification does not allow.
        options: Of each generation; see `GenerationOptions`.

    Raises:
        OptionsError: The mode is unknown, or is `stale`, which would leave the model with an old value.
        UnsupportedModelError: The model was not qualified for the mode, or not at all, and must be.
    """

    def __init__(
        self,
        model: LocalModel,
        session: AgentSession[Any],
        *,
        edit_mode: str = "erratum",
        skills: Sequence[str] | SkillRegistry = (),
        later_skills: bool = False,
        qualified: bool = False,
        options: OptionFields | None = None,
    ) -> None:
        self.model = model
        self.session = session
        self.skills = skills if isinstance(skills, SkillRegistry) else tuple(skills)
        self._texts = _forms(skills, session, later_skills) if isinstance(skills, SkillRegistry) else ()
        self.edit_mode = edit_mode
        self._way = edit_way(edit_mode)
        self._options: OptionFields = options if options is not None else OptionFields()
        self._resumes = True
        if self._way.mode == "stale":
            raise OptionsError(
                "edit_mode 'stale' leaves the model with an old value: no session can say that truthfully"
            )
        if qualified:
            if model.qualification is None:
                raise UnsupportedModelError("this model has no qualification: give LocalModel the report of qualify")
            for mode in (edit_mode, *(("skills",) if skills else ())):
                model.qualification.require(mode)

    def answer(self, messages: Sequence[Message], **options: Unpack[OptionFields]) -> Turn:
        """Answers, and records what was told. If the call fails, nothing was told.

        Args:
            messages: The whole conversation, without errata.
            **options: For this turn alone.

        Raises:
            PkvError: Whatever planning, generating or recording raises.
        """
        wanted = self._options.copy()
        wanted.update(options)
        plan = self._plan(messages, wanted)
        sent = wire(plan, messages)
        wanted["session"], wanted["edit_mode"], wanted["skills"] = self.session.key, self.edit_mode, self._skills(sent)
        reply = self.model.generate(sent, **wanted)
        usage = {
            "input_tokens": reply.prompt_tokens,
            "output_tokens": reply.output_tokens,
            "input_token_details": {"cache_read": reply.cached_tokens},
        }
        self.session.commit(plan, usage, answer=reply.message)
        if (notice := self._notice(plan, reply)) is not None:
            self.session.tell(notice, plan)
        self._resumes = False
        return Turn(reply, plan)

    def _plan(self, messages: Sequence[Message], wanted: OptionFields) -> TurnPlan:
        """The plan: by errata, or with a head that is rewritten for an edit."""
        told = self._told(messages)
        paths = _in_the_head(told)
        if self._way.mode == "erratum" or not paths or not self._may(told, paths, wanted):
            return told
        word = "rewritten" if self._way.mode == "full" else EDITED
        self.session.rebase(f"{word}: {', '.join(paths)}")
        plan = self._told(messages)
        return _with_erratum(plan, told) if self._way.mode == "field_erratum" else plan

    def _skills(self, sent: Sequence[Message]) -> tuple[str, ...]:
        """Those that stand in a request."""
        if not isinstance(self.skills, SkillRegistry):
            return self.skills
        return tuple(text for text in self._texts if any(text in message.text for message in sent))

    def _told(self, messages: Sequence[Message]) -> TurnPlan:
        return self.session.plan(messages, profile=self.model.profile, model=self.model.fingerprint)

    def _may(self, plan: TurnPlan, paths: Sequence[str], wanted: OptionFields) -> bool:
        if self._way.mode != "auto":
            return True
        skeleton = self.model.skeleton([Message("system", plan.system)], wanted.get("tools", ()))
        verdicts = [self.model.verdicts.get(skeleton, path) for path in paths]
        return all(verdict is not None and verdict.allows for verdict in verdicts)

    def _notice(self, plan: TurnPlan, reply: Reply) -> Notice | None:
        if reply.grade != "exact":
            return Notice(
                "kv_approximate",
                path=", ".join(reply.edited),
                cost="the answer may differ from that of a clean prefill",
                mend="edit_mode='erratum' is exact, without skills or with skills that were compiled for this head",
                message=f"the answer rests on keys and values that were {reply.grade}",
            )
        by_edit = plan.epoch.reason.startswith(EDITED)
        if by_edit and (plan.rebased is not None or self._resumes):
            return Notice(
                "kv_prefilled",
                cost=f"{reply.prompt_tokens - reply.cached_tokens:,} tokens were computed",
                message="the cache held nothing to edit or to go on from: the answer is that of a clean prefill",
            )
        return None


def _forms(registry: SkillRegistry, session: AgentSession[Any], later: bool) -> tuple[str, ...]:
    """Each skill as it stands in a head; and, if it may come later, as an erratum tells it."""
    names = [skill.name for skill in registry if registry.is_trusted(skill.name)]
    heads = [registry.head_text(name) for name in names]
    appended = [registry.appended_text(name, style=session.style) for name in names] if later else []
    return tuple(dict.fromkeys([*heads, *appended]))


def _in_the_head(plan: TurnPlan) -> tuple[str, ...]:
    """Fields that this plan tells anew and that the head of its epoch shows."""
    if plan.rebased is not None or plan.erratum is None or not plan.base:
        return ()
    shown = plan.epoch.baseline.leaves
    return tuple(
        change.path
        for change in plan.changes
        if change.path not in plan.restated
        and any(path == change.path or is_below(path, change.path) or is_below(change.path, path) for path in shown)
    )


def _with_erratum(plan: TurnPlan, told: TurnPlan) -> TurnPlan:
    """A plan with a new head that also says by an erratum what is new in it."""
    if told.erratum is None or told.epoch.tag != plan.epoch.tag:
        return plan
    erratum = replace(told.erratum, revision=plan.sent.revision)
    after = plan.leading + erratum.anchor.after
    said = Insertion(after, erratum.text, erratum.carrier, is_new=True, revision=erratum.revision)
    return replace(
        plan,
        insertions=(*plan.insertions, said),
        erratum=erratum,
        changes=(*plan.changes, *told.changes),
        epoch=replace(plan.epoch, errata=(*plan.epoch.errata, erratum)),
        appended_tokens=plan.appended_tokens + told.appended_tokens,
        id=f"{plan.id}e",
    )

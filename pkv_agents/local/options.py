"""What can be asked of one generation, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from pkv_agents.errors import OptionsError
from pkv_agents.kv import EXACT, Origin
from pkv_agents.local.edit_way import edit_way
from pkv_agents.messages import Message, ToolCall


class OptionFields(TypedDict, total=False):
    """The keyword arguments of `LocalModel.generate` and `stream`; see `GenerationOptions`."""

    tools: Sequence[Mapping[str, object]]
    tool_choice: str
    response_schema: Mapping[str, object] | None
    choices: Sequence[str] | None
    preface: int
    max_tokens: int
    stop: Sequence[str]
    temperature: float
    seed: int | None
    salt: str
    session: str | None
    edit_mode: str
    skills: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationOptions:
    """What is asked of one generation.

    Attributes:
        tools: OpenAI function records; they are listed in the head and can be called.
        tool_choice: `auto` (text or a call), `any` (a call), `none` (no call), or a tool's name.
        response_schema: The answer is JSON of this schema (with `auto`, or a tool call instead).
        choices: The answer is one of these texts.
        preface: Before a call that must come (`any`, or a name) the model first writes one line of at most so many
            characters, which is the answer's text: small models decide better after naming what they decide by.
        max_tokens: Most tokens of the answer.
        stop: Texts that end the answer and are not part of it.
        temperature: 0 takes the likeliest token.
        seed: Makes sampling repeatable.
        salt: The tenant; caches of different salts are never shared.
        session: The conversation; it keeps its slab from turn to turn.
        edit_mode: What happens when the head is another than in the session's last request; see `edit_way`. The default
            and `full` are exact.
        skills: Texts that stand in the system text or, loaded later, in a message, each on lines of its own: their
            compiled keys and values are put in place instead of being computed. That is an approximation, and
            `Reply.origin` says so, but for a skill that was compiled for just this head (`LocalModel.skills`).

    Raises:
        OptionsError: If a value makes no sense.
    """

    tools: Sequence[Mapping[str, object]] = ()
    tool_choice: str = "auto"
    response_schema: Mapping[str, object] | None = None
    choices: Sequence[str] | None = None
    preface: int = 0
    max_tokens: int = 256
    stop: Sequence[str] = ()
    temperature: float = 0.0
    seed: int | None = None
    salt: str = ""
    session: str | None = None
    edit_mode: str = "erratum"
    skills: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise OptionsError(f"max_tokens is {self.max_tokens}; an answer has at least one token")
        if self.preface < 0:
            raise OptionsError(f"preface is {self.preface}; it is the most characters of a line, or 0 for none")
        if not self.temperature >= 0:
            raise OptionsError(f"temperature is {self.temperature}; it cannot be negative")
        if isinstance(self.stop, str):
            raise OptionsError("stop is a sequence of texts, not one text")
        if isinstance(self.skills, str) or not all(self.skills):
            raise OptionsError("skills is a sequence of texts, none of them empty")
        edit_way(self.edit_mode)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    Attributes:
        text: The answer's text; of a tool call its preface, which is empty if none was asked for.
        tool_calls: The calls.
        finish_reason: `stop`, `length` or `tool_calls`.
        prompt_tokens: Tokens of the prompt.
        cached_tokens: Those of them that were not passed to the model's forward.
        output_tokens: Tokens generated.
        ttft_s: Seconds from the call to the first token chosen.
        total_s: Seconds from the call to the end.
        ids: The generated ids, without the token that ended the turn.
        decision_margin: Logit distance between the best and the second-best token where the first choice was made,
            behind a preface if there is one; None if nothing was chosen. A small one is a near-tie.
        origin: What the answer rests on: `EXACT`, or how the cached keys and values were composed or edited.
        edited: Fields that were edited in the cache for this answer.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    ttft_s: float
    total_s: float
    ids: tuple[int, ...]
    decision_margin: float | None = None
    origin: Origin = EXACT
    edited: tuple[str, ...] = ()

    @property
    def grade(self) -> str:
        """`exact`, `composed` or `edited`: whether the answer is what a clean prefill gives, in a word."""
        return type(self.origin).__name__.lower()

    @property
    def message(self) -> Message:
        """The answer as the message that belongs into the history."""
        return Message("assistant", self.text, self.tool_calls)


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the answer's text, whole characters only. Tool calls are not streamed; they are in `Done`."""

    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a stream."""

    reply: Reply


StreamEvent = Delta | Done

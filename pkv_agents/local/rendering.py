"""Renders a chat template as transformers does, from its text alone and at any time of day.

Chat templates are code from strangers: they run in Jinja's immutable sandbox, with the few names that transformers
gives them. Two renderers share one form, so that a probe need not know which it has: `TextTemplate` from the text, and
`TokenizerTemplate` through the tokenizer (what a local engine really sends).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Protocol, cast

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pkv_agents.errors import TemplateError

ChatMessage = Mapping[str, object]

REFUSALS: tuple[type[Exception], ...] = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What a template raises that cannot carry a conversation: on purpose, or by reading what is not there."""


class Render(Protocol):
    """Renders messages to text."""

    def __call__(
        self,
        messages: Sequence[ChatMessage],
        *,
        ask: bool = False,
        tools: Sequence[ChatMessage] | None = None,
        at: datetime | None = None,
        options: ChatMessage | None = None,
    ) -> str:
        """The text.

        Args:
            messages: Role, content, and whatever else a chat message has.
            ask: Append the generation prompt.
            tools: OpenAI tool records.
            at: What `strftime_now` believes; None is now.
            options: Further variables of the template, as `enable_thinking`.

        Raises:
            TemplateError: The template refuses the conversation.
        """
        ...


class _Generation(Extension):
    """`{% generation %}`, by which templates mark what a model wrote: here only its body."""

    tags = {"generation"}  # noqa: RUF012 - jinja reads it from the class

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The statements between the tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TextTemplate:
    """A chat template from its text, without a tokenizer.

    Args:
        text: The Jinja source.
        special_tokens: What the template may name, as `bos_token`.

    Raises:
        TemplateError: If the text is no Jinja template.
    """

    def __init__(self, text: str, *, special_tokens: Mapping[str, str] | None = None) -> None:
        self.text = text
        self.special_tokens = dict(special_tokens or {})
        self._environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        self._environment.filters["tojson"] = _tojson
        try:
            self._template = self._environment.from_string(text)
        except jinja2.TemplateError as error:
            raise TemplateError(f"the chat template is no valid Jinja template: {error}") from error

    @cached_property
    def variables(self) -> frozenset[str]:
        """Every name that the template reads and that is a caller's to give.

        A name that it also sets counts only where it asks first whether the name is defined, as for a date's default.
        """
        tree = self._environment.parse(self.text)
        own = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
        asked = {test.node.name for test in tree.find_all(nodes.Test) if isinstance(test.node, nodes.Name)}
        return frozenset(meta.find_undeclared_variables(tree) - (own - asked))

    def __call__(
        self,
        messages: Sequence[ChatMessage],
        *,
        ask: bool = False,
        tools: Sequence[ChatMessage] | None = None,
        at: datetime | None = None,
        options: ChatMessage | None = None,
    ) -> str:
        """See `Render`."""
        names = {**self.special_tokens, **(options or {})}
        try:
            return self._template.render(
                {
                    **names,
                    "messages": [dict(message) for message in messages],
                    "tools": [dict(tool) for tool in tools] if tools else None,
                    "documents": None,
                    "add_generation_prompt": ask,
                    "strftime_now": _clock(at),
                    "raise_exception": _raise,
                }
            )
        except REFUSALS as error:
            raise TemplateError(f"the chat template refuses this conversation: {error}") from error


class _Tokenizer(Protocol):
    chat_template: object
    special_tokens_map: Mapping[str, object]

    def apply_chat_template(self, conversation: Sequence[ChatMessage], *, tokenize: bool, **options: object) -> str: ...


class TokenizerTemplate:
    """A tokenizer's chat template, rendered by the tokenizer.

    Args:
        tokenizer: A transformers tokenizer.

    Raises:
        TemplateError: If it has no chat template, several without a default, or one that is no Jinja template.
    """

    def __init__(self, tokenizer: object) -> None:
        self._tokenizer = cast("_Tokenizer", tokenizer)
        named = {k: v for k, v in self._tokenizer.special_tokens_map.items() if isinstance(v, str)}
        # The tokenizer cannot be told the time: it turns a function among its options into text.
        self._timed = TextTemplate(_text_of(self._tokenizer), special_tokens=named)
        self.text, self.special_tokens = self._timed.text, self._timed.special_tokens

    @property
    def variables(self) -> frozenset[str]:
        """Every name that the template reads and that is a caller's to give."""
        return self._timed.variables

    def __call__(
        self,
        messages: Sequence[ChatMessage],
        *,
        ask: bool = False,
        tools: Sequence[ChatMessage] | None = None,
        at: datetime | None = None,
        options: ChatMessage | None = None,
    ) -> str:
        """See `Render`."""
        if at is not None:
            return self._timed(messages, ask=ask, tools=tools, at=at, options=options)
        try:
            return self._tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                chat_template=self.text,  # of several, it would take another one as soon as there are tools
                add_generation_prompt=ask,
                tools=[dict(tool) for tool in tools] if tools else None,
                **(options or {}),
            )
        except REFUSALS as error:
            raise TemplateError(f"the chat template refuses this conversation: {error}") from error


def _text_of(tokenizer: _Tokenizer) -> str:
    found = getattr(tokenizer, "chat_template", None)
    if isinstance(found, Mapping):  # several: the default, whether or not there are tools
        found = cast("Mapping[str, object]", found).get("default")
    if not found or not isinstance(found, str):
        raise TemplateError(
            "the tokenizer has no chat template: set tokenizer.chat_template to the one the model was trained with"
        )
    return found


def _clock(at: datetime | None) -> Callable[[str], str]:
    return lambda form: (at or datetime.now()).strftime(form)


def _raise(message: str) -> str:
    raise jinja2.TemplateError(message)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Jinja's own filter escapes HTML; templates are written for this one."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

"""Renders messages to token ids so that an earlier rendering stays a prefix of a later one.

Three rules:

1. Text is tokenised piece by piece between control tokens, where tokenisers never merge; so a piece has the same ids
   in every request. The pieces' ids joined are the ids of the whole text.
2. Contents are data. A control string inside a content is broken up by `neutralise`, and ids are checked again after
   tokenisation, so no content can end a turn or begin one.
3. Generated ids are the truth. An answer that this engine generated is fed back by its ids, found by what was asked
   (everything before the turn, or everything between the head and it) and by its text. It is never tokenised again.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Protocol, cast

from pkv_agents.local._answers import Answer, Stretch
from pkv_agents.local.rendering import TokenizerTemplate
from pkv_agents.local.turns import Turn, to_turns
from pkv_agents.local.verdict import TemplateVerdict
from pkv_agents.local.verdicts import probe_template
from pkv_agents.messages import Message

_PIECES = 4096
"""Tokenised pieces that are remembered."""
_SURROGATES = re.compile("[\ud800-\udfff]")
_REMEMBERED_TURNS = 4096
"""Generated turns whose ids are remembered; an older one is tokenised from its text again."""


class AddedToken(Protocol):
    """A token that the tokenizer splits off before anything else."""

    content: str
    special: bool
    lstrip: bool


class ChatTokenizer(Protocol):
    """The part of a transformers tokenizer that the engine uses."""

    eos_token_id: int | None

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Added tokens by id."""
        ...

    def __len__(self) -> int: ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Ids of a text."""
        ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        """Text of ids."""
        ...


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt.

    Attributes:
        ids: Token ids, ending where the answer begins.
        text: The rendered text.
        asked: Digest of the turns, by which the answer is remembered.
        behind: The same of the turns behind the head.
    """

    ids: tuple[int, ...]
    text: str
    asked: bytes
    behind: bytes


class ChatTemplate:
    """A tokenizer's chat template, probed and made safe.

    Args:
        tokenizer: A transformers tokenizer with a chat template.
        options: Variables of the template, as `{"enable_thinking": False}`: fixed, since they change the prompt.

    Raises:
        TemplateError: If there is no chat template, or it cannot render a question and an answer.
    """

    def __init__(self, tokenizer: object, *, options: Mapping[str, object] | None = None) -> None:
        self.tokenizer = cast("ChatTokenizer", tokenizer)
        self._options = dict(options or {})
        self._template = TokenizerTemplate(tokenizer)
        self._control = _control_tokens(self.tokenizer)
        strings = sorted(self._control, key=len, reverse=True)
        self._pattern = re.compile("(" + "|".join(map(re.escape, strings)) + ")") if strings else re.compile(r"(?!)")
        self._control_ids = frozenset(token for token, _ in self._control.values())
        self._answers: OrderedDict[bytes, tuple[Answer, ...]] = OrderedDict()
        self._lock = threading.Lock()
        self._piece = lru_cache(maxsize=_PIECES)(self._encode_piece)

    @cached_property
    def verdict(self) -> TemplateVerdict:
        """What the template does with late system turns, tools and growing histories (probed once in a process)."""
        return probe_template(self.tokenizer, options=self._options)

    @cached_property
    def stop_tokens(self) -> frozenset[int]:
        """Ids that end an answer: the tokenizer's, the template's, and the one that would begin the next turn."""
        ends = self._pattern.match(self.verdict.turn_end.lstrip())
        begins = self._pattern.match(self.verdict.generation_prompt.lstrip())
        ids = {self._control[found[0]][0] for found in (ends, begins) if found}
        return frozenset(ids if self.tokenizer.eos_token_id is None else ids | {self.tokenizer.eos_token_id})

    def head_size(self, ids: Sequence[int]) -> int:
        """How many of a prompt's tokens are its first turn, which holds the head; 0 if no token ends a turn."""
        ends = self._pattern.match(self.verdict.turn_end.lstrip())
        return next((at + 1 for at, token in enumerate(ids) if ends and token == self._control[ends[0]][0]), 0)

    def text_of(self, ids: Sequence[int]) -> str:
        """The text of token ids, control tokens included."""
        return self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def preamble(self, text: str) -> list[int]:
        """Token ids of a system turn's opening and a text behind it; of the text alone without such turns."""
        turns = [{"role": "system", "content": text}, {"role": "user", "content": "Hello"}]
        whole = self._template(turns, ask=False, options=self._options) if self.verdict.leading_system else text
        return self.encode(whole[: whole.index(text) + len(text)] if text in whole else text)

    def render(self, messages: Sequence[Message], tools: Sequence[Mapping[str, object]] = ()) -> Rendered:
        """Renders a request up to where the answer begins.

        Raises:
            TemplateError: If the template refuses the conversation.
        """
        turns = to_turns(messages, tools=tools, verdict=self.verdict, clean=self.neutralise)
        text = self._template([asdict(turn) for turn in turns], ask=True, options=self._options)
        head = int(bool(turns) and turns[0].role == "system")
        digests, behind = _chain(turns), [b"", *_chain(turns[head:])][1 - head :]
        ids: list[int] = []
        position = 0
        for index, turn in enumerate(turns):
            keys = (digests[index], behind[index])
            if turn.role == "assistant" and (found := self._recall(keys, text, position, turn.content)):
                start, end, generated = found
                ids += self.encode(text[position:start])
                ids += generated
                position = end
        ids += self.encode(text[position:])
        return Rendered(tuple(ids), text, digests[-1], behind[-1])

    def remember(self, asked: Rendered, ids: Sequence[int], answer: str) -> None:
        """Keeps the ids of a generated answer, so that its text is fed back by them.

        Args:
            asked: The prompt that was answered.
            ids: The generated ids, without the token that ended the turn.
            answer: The assistant's text as a later request will carry it.
        """
        head = self._head_end(asked.text)
        behind = Stretch.of(asked.text[head:]) if head else None
        record = Answer(Stretch.of(asked.text), behind, self.neutralise(answer), tuple(ids))
        with self._lock:
            for key in {asked.asked, asked.behind}:
                others = tuple(a for a in self._answers.pop(key, ()) if a.text != record.text)
                self._answers[key] = (record, *others[:7])
            while len(self._answers) > 2 * _REMEMBERED_TURNS:
                self._answers.popitem(last=False)

    def _head_end(self, text: str) -> int:
        """Where the first turn of a rendered text ends; 0 if no mark ends a turn."""
        mark = self.verdict.turn_end.strip()
        return text.find(mark) + len(mark) if mark and mark in text else 0

    def neutralise(self, text: str) -> str:
        """Breaks up control strings by one space behind their first character; the same way each time.

        Lone surrogates, which no tokenizer can encode, become U+FFFD.
        """
        text = _SURROGATES.sub("\ufffd", text)
        while True:
            broken = self._pattern.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
            if broken == text or len(broken) > 4 * len(text) + 16:
                return broken
            text = broken

    def encode(self, text: str) -> list[int]:
        """Tokenises rendered text between its control tokens."""
        parts = self._pattern.split(text)
        ids = list(self._piece("", parts[0], "")) if parts[0] else []
        for index in range(1, len(parts), 2):
            following = parts[index + 2] if index + 2 < len(parts) else ""
            if following and not self._control[following][1]:
                following = ""
            ids += self._piece(parts[index], parts[index + 1], following)
        return ids

    def _encode_piece(self, control: str, text: str, following: str) -> tuple[int, ...]:
        """Ids of a control token and the text behind it; `following` only if that token strips its left side."""
        ids = self.tokenizer.encode(control + text + following, add_special_tokens=False)
        if following:
            ids = ids[:-1]
        first = 1 if control else 0
        if not self._control_ids.isdisjoint(ids[first:]):
            # Not a control string as written, but one after the tokenizer's normalisation (full-width letters).
            return (*ids[:first], *self._without_control(text))
        return tuple(ids)

    def _without_control(self, text: str) -> tuple[int, ...]:
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        if self._control_ids.isdisjoint(ids):
            return tuple(ids)
        if len(text) < 2:
            return ()
        middle = len(text) // 2
        return (*self._without_control(text[:middle]), *self._without_control(text[middle:]))

    def _recall(
        self, keys: Sequence[bytes], text: str, position: int, content: str
    ) -> tuple[int, int, tuple[int, ...]] | None:
        """Finds the generated ids of a turn and the range of rendered text for which they stand.

        What was asked is the same with the same head, or else with another: ids stay the truth when a head changes.
        """
        answers: list[Answer] = []
        with self._lock:
            for key in keys:
                if key in self._answers:
                    self._answers.move_to_end(key)
                    answers += self._answers[key]
        end_mark, head = self.verdict.turn_end.strip(), self._head_end(text)
        for answer in answers:
            start, body = answer.start_in(text, head), answer.text.strip()
            if answer.text != content or start is None or start < position:
                continue
            rest = text[start:]
            begin = len(rest) - len(rest.lstrip())
            end = begin + len(body)
            behind = rest[end:]
            if not body:
                begin, end, behind = 0, 0, rest
            if rest[begin:end] == body and end_mark and behind.lstrip().startswith(end_mark):
                return start, start + end + len(behind) - len(behind.lstrip()), answer.ids
        return None


def _control_tokens(tokenizer: ChatTokenizer) -> dict[str, tuple[int, bool]]:
    """Control strings with id and whether they strip white space on their left.

    Special tokens, and added ones that look like marks (`<tool_call>`); runs of spaces are added tokens too and none.
    """
    return {
        token.content: (index, token.lstrip)
        for index, token in tokenizer.added_tokens_decoder.items()
        if len(token.content) > 1
        and (token.special or re.fullmatch(r"<\S+>|\[\S+\]|<\|.*\|>", token.content) is not None)
    }


def _chain(turns: Sequence[Turn]) -> list[bytes]:
    """Digests of the turns before each turn, and of all of them."""
    digest = hashlib.blake2b(digest_size=16)
    chain = [digest.digest()]
    for turn in turns:
        content = turn.content.encode("utf-8", "surrogatepass")
        digest.update(f"{turn.role} {len(content)}\n".encode())
        digest.update(content)
        chain.append(digest.copy().digest())
    return chain

"""A careful reader of edits, which shares no code with the library: it takes the words as they stand.

It works on the text as shown, because a model does: an old part must be found in the told text letter by letter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_STRING = r'"(?:[^"\\]|\\.)*"'
_VALUE = re.compile(rf'\[(?:[^"\]]|{_STRING})*\]|\{{\}}|{_STRING}|[^\s",;()\[\]{{}}]+')
_NAME = re.compile(rf'((?:[^\s"\[\]{{}}:,]|\[(?:[^\]"]*|{_STRING})\])+): ')
_STEP = re.compile(r"(?:append|insert at (?P<insert>\d+)|set at (?P<set>\d+)|remove at (?P<remove>\d+)|(?P<now>now)) ?")
_REPLACE = re.compile(rf"(?:replace (?P<old>{_STRING}) with (?P<new>{_STRING})|append (?P<more>{_STRING}))(?:; |$)")
_EDIT = re.compile(r"replace |append |(?:insert|set|remove) at \d")


def is_edit(text: str) -> bool:
    """Whether the words after a path are an edit: a value begins with none of these."""
    return _EDIT.match(text) is not None


def edit_line(told: str, words: str) -> str:
    """What a text, or a list in one line, reads after an edit."""
    if told.startswith('"'):
        return f'"{_edit_text(told[1:-1], words)}"'
    items = [match[0] for match in _VALUE.finditer(told[1:-1])]
    return f"[{', '.join(_edit_list(items, words, _value))}]"


def edit_items(told: dict[int, dict[str, str]], words: str) -> list[dict[str, str]]:
    """What a list whose items have lines of their own is after an edit: the lines of each item, below its own path."""
    assert sorted(told) == list(range(len(told)))
    return _edit_list([told[at] for at in range(len(told))], words, _item)


def _edit_text(text: str, words: str) -> str:
    at = 0
    while at < len(words):
        match = _REPLACE.match(words, at)
        assert match is not None, words[at:]
        if match["more"] is not None:
            text += match["more"][1:-1]
        else:
            old, new = match["old"][1:-1], match["new"][1:-1]
            assert old and text.count(old) == 1
            assert json.loads(f'"{text}"').count(json.loads(f'"{old}"')) == 1
            text = text.replace(old, new)
        at = match.end()
    return text


def _value(words: str, at: int) -> tuple[str, int]:
    match = _VALUE.match(words, at)
    assert match is not None, words[at:]
    return match[0], match.end()


def _item(words: str, at: int) -> tuple[dict[str, str], int]:
    """An item: its fields in braces, or one value."""
    if not words.startswith("{", at) or words.startswith("{}", at):
        text, at = _value(words, at)
        return {"": text}, at
    made: dict[str, str] = {}
    while not words.startswith("}", at):
        name = _NAME.match(words, at + (2 if made else 1))
        assert name is not None, words[at:]
        made[name[1] if name[1].startswith("[") else f".{name[1]}"], at = _value(words, name.end())
    return made, at + 1


def _edit_list(told: list[T], words: str, read: Callable[[str, int], tuple[T, int]]) -> list[T]:
    items, last, at = list(told), len(told), 0
    while at < len(words):
        step = _STEP.match(words, at)
        assert step is not None, words[at:]
        at = step.end()
        if step["now"]:
            assert words.endswith(f"[{len(items) - 1}]")
            return items
        place = int(step["insert"] or step["set"] or step["remove"] or len(told))
        # From the back to the front: an index means the same in the list as it was told and after each step.
        assert place <= last
        last = place
        if step["remove"]:
            if words.startswith("(", at):
                value, at = read(words, at + 1)
                assert value == told[place]
                at += 1
            del items[place]
        elif step["set"]:
            items[place], at = read(words, at)
        else:
            new: list[T] = []
            while not new or words.startswith(", ", at):
                value, at = read(words, at + (2 if new else 0))
                new.append(value)
            items[place:place] = new
        assert at == len(words) or words.startswith(("; ", " "), at - (words[at - 1] == " ")), words[at:]
        at += 2 if words.startswith("; ", at) else 0
    return items

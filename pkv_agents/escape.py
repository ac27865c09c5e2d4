r"""Values are data: how text is kept from forging a block, closing a tag or injecting a control token.

Two directions. What *we* render (values, keys) is JSON with every dangerous character as `\uXXXX`, so no value can
contain `<`. What *others* wrote (users, tools, the model) keeps its text, except that look-alikes of our own tags lose
their opening character (`neutralise`). Both are pure, and the same text always gives the same bytes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence

from .errors import StateError

# Markup, its full-width twins, and the bar that some vendors' special tokens use.
_MARKUP = frozenset("<>&\uff1c\uff1e\uff5c")
# Invisible or unassigned-by-purpose: controls, format characters, line and paragraph separators, private use.
_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp", "Co"})
# Mistral's and Llama's [INST], ChatGLM's [gMASK], EXAONE's [|system|]; `[1]` and `[note]` are text.
_CONTROL_WORD = re.compile(r"\[(/?[A-Z_]+|gMASK|sMASK|control_\d+|\|/?\w+\|?)\]")
# What would be taken for an escape of ours in a text that stands as it is.
_ENTITY = re.compile(r"&(?=#?\w+;)")
_encode = json.JSONEncoder(ensure_ascii=False).encode
# Printable ASCII without quotes, backslash, markup and the bracket that opens control words: most values.
_ORDINARY = re.compile(r"[ !#-%'-;=?-Z\]-~]*")
MAX_CHARACTERS = 1_000_000
"""The longest text of one value. What is longer fills the window of most models, and escaping it takes seconds."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_.-]+")

# What renders as nothing, as a gap between letters, or on top of one.
_INVISIBLE = (
    r"[\s\x00-\x1f\x7f-\x9f\u00ad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u1ab0-\u1aff"
    r"\u1dc0-\u1dff\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20d0-\u20ff\u3164\ufe00-\ufe0f\ufe20-\ufe2f\ufeff"
    r"\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]*"
)
# Letters of other alphabets that look like one of ours; styled and accented ones are found by their decomposition.
_LETTERS = {
    "s": "\u0455\u0282\ua731",
    "t": "\u0442\u03c4\u0288\u01ad\u1d1b",
    "a": "\u0430\u03b1\u0251\u1d00",
    "e": "\u0435\u03b5\u025b\u04bd\u212e\u1d07",
    "u": "\u03c5\u028b\u057d\u1d1c",
    "p": "\u0440\u03c1\u1d18",
    "d": "\u0501\u0256\u0257\u1d05",
}
_STYLED = (
    *(range(0xC0, 0x250), range(0x2B0, 0x2E5), range(0x400, 0x530), range(0x1D2C, 0x1D6B), range(0x1E00, 0x1F00)),
    *(range(0x2070, 0x20A0), range(0x2100, 0x2150), range(0x24B6, 0x24EA), range(0xFF21, 0xFF5B)),
    *(range(0x1D400, 0x1D800), range(0x1F130, 0x1F14A)),
)


def _look_alikes() -> dict[str, str]:
    """Each letter of our tags with all characters that look like it."""
    found = {letter: letter + others for letter, others in _LETTERS.items()}
    bases = {shape: letter for letter, shapes in found.items() for shape in shapes}
    for code in (code for block in _STYLED for code in block):
        # What is left beside the letter is an accent: as one of its own it would be passed over (`_INVISIBLE`).
        base, *accents = unicodedata.normalize("NFKD", chr(code)).lower()
        if base in bases and chr(code) not in bases and all(map(unicodedata.combining, accents)):
            found[bases[base]] += chr(code)
    return found


_SHAPES = _look_alikes()


def _spelled(word: str) -> str:
    return _INVISIBLE.join(f"[{_SHAPES[letter]}]" for letter in word)


_ANGLE = "[<\u02c2\u1438\u2039\u227a\u2329\u276c\u276e\u2770\u27e8\u27ea\u2991\u3008\u300a\ufe64\uff1c]"
_SQUARE = "[\\[\uff3b]"
_DOUBLE = "[\u27e6\u301a]"
_DASH = "[-_\u2010-\u2015\u2212\ufe58\ufe63\uff0d\uff3f]"
# No two runs of the same characters stand beside each other: that would take quadratic time on a long run.
_LOOKALIKE = re.compile(
    f"(?:(?P<square>{_SQUARE}{_INVISIBLE}{_SQUARE}|{_DOUBLE})|{_ANGLE}){_INVISIBLE}"
    f"(?:(?P<slash>[/\uff0f\u2044\u2215]){_INVISIBLE})?{_spelled('state')}"
    f"(?P<update>{_INVISIBLE}(?:{_DASH}{_INVISIBLE})?{_spelled('update')})?(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_MAYBE_SQUARE = re.compile(f"{_SQUARE}{_INVISIBLE}{_SQUARE}")
_MAYBE_LOOKALIKE = re.compile(f"{_ANGLE}|{_MAYBE_SQUARE.pattern}|{_DOUBLE}")


def _unicode_escape(char: str) -> str:
    """The JSON escape of a character, as a surrogate pair beyond the basic plane."""
    return json.dumps(char)[1:-1] if ord(char) > 0x7F else f"\\u{ord(char):04x}"


def too_long(length: int) -> str:
    """What to say about a value of so many characters; it goes on after the value's path."""
    return (
        f"text has {length:,} characters, and {MAX_CHARACTERS:,} is the most; "
        "keep it elsewhere, and track a reference or a summary"
    )


def escape_text(text: str) -> str:
    r"""Escape what stands between the quotes of a JSON string.

    Args:
        text: Any text without lone surrogates.

    Returns:
        ASCII and printable characters as they are; quotes, controls, markup and look-alike control words escaped.

    Raises:
        StateError: The text has a lone surrogate, which no provider accepts, or more than a million characters.
    """
    if len(text) > MAX_CHARACTERS:
        raise StateError(too_long(len(text)))
    if _ORDINARY.fullmatch(text):
        return text
    try:
        if not text.isascii():
            text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise StateError(
            f"text has a lone surrogate at character {error.start}; decode it with errors='replace' first"
        ) from None
    return escape_json(_encode(text)[1:-1])


def escape_json(quoted: str) -> str:
    """The same JSON text (or a piece of it) with everything that could open or close something escaped."""
    if not quoted.isprintable() or not _MARKUP.isdisjoint(quoted):
        quoted = "".join(_unicode_escape(char) if _is_dangerous(char) else char for char in quoted)
    if "[" in quoted:
        quoted = _CONTROL_WORD.sub(r"\\u005b\1\\u005d", quoted)
        if _MAYBE_SQUARE.search(quoted):
            quoted = _LOOKALIKE.sub(_escaped_square, quoted)
    return quoted


def _escaped_square(match: re.Match[str]) -> str:
    return f"{_unicode_escape(match[0][0])}{match[0][1:]}" if match["square"] else match[0]


def _is_dangerous(char: str) -> bool:
    return char in _MARKUP or unicodedata.category(char) in _CATEGORIES


def escape_block(text: str) -> str:
    r"""Escape a text that stands as it is, on lines of its own.

    Args:
        text: Any text without lone surrogates.

    Returns:
        The same lines, in which nothing can open or close anything: `<` reads `&lt;`, and what is invisible or looks
        like a control word is escaped as in JSON. Quotes, backslashes and `>` stay.
    """
    text = _ENTITY.sub("&amp;", text).replace("<", "&lt;")
    dangerous = _MARKUP - frozenset("<>&")
    escaped = "".join(
        _unicode_escape(char)
        if char in dangerous or (unicodedata.category(char) in _CATEGORIES and char not in "\n\t")
        else char
        for char in text
    )
    return neutralise(_CONTROL_WORD.sub(r"\\u005b\1\\u005d", escaped))


def json_string(text: str) -> str:
    """Render text as one JSON string that cannot contain `<`."""
    return f'"{escape_text(text)}"'


def quote_key(key: str) -> str:
    """Render a key for the brackets of a path: bare where it is plain, a JSON string otherwise."""
    if len(key) > MAX_CHARACTERS:
        raise StateError(too_long(len(key)))
    return key if _BARE_KEY.fullmatch(key) and not _CONTROL_WORD.fullmatch(f"[{key}]") else json_string(key)


def neutralise(text: str) -> str:
    """Take the power out of look-alikes of our tags in text that others wrote.

    `<state ...>`, `</state-update>` and their full-width, zero-width-split, spaced and homoglyph variants become
    `&lt;state ...`; `[[state ...`, the same in square brackets, becomes `&#91;[state ...`. Both forms are looked for
    whatever the session's style is: it may have been another when an erratum was sent. Everything else is untouched,
    the function is idempotent, and equal text gives equal text.

    Args:
        text: What a user, a tool or the model wrote.

    Returns:
        The text as it may stand in a request.
    """
    if _MAYBE_LOOKALIKE.search(text) is None:
        return text
    return _LOOKALIKE.sub(_harmless, text)


def neutralise_joined(texts: Sequence[str]) -> list[str]:
    """Neutralise texts that a provider may put together: a look-alike that begins in one and ends in another.

    Args:
        texts: Neutralised texts, in order.

    Returns:
        As many texts; those in which such a look-alike begins lose its opening character.
    """
    joined = "".join(texts)
    found = _LOOKALIKE.finditer(joined) if len(texts) > 1 else iter(())
    match = next(found, None)
    made, start = list[str](), 0
    for text in texts:
        end, at, pieces = start + len(text), start, list[str]()
        while match is not None and match.start() < end:
            pieces += [joined[at : match.start()], "&#91;" if match["square"] else "&lt;"]
            at, match = match.start() + 1, next(found, None)
        made.append("".join([*pieces, joined[at:end]]) if pieces else text)
        start = end
    return made


def _harmless(match: re.Match[str]) -> str:
    slash = "/" if match["slash"] else ""
    opening = "&#91;[" if match["square"] else "&lt;"
    return f"{opening}{slash}state{'-update' if match['update'] else ''}"


def find_lookalike(text: str) -> bool:
    """Whether a text holds what could pass for a marker of one of our blocks."""
    return _LOOKALIKE.search(text) is not None


def is_plain_text(text: str) -> bool:
    """Whether a text has no markup, no invisible character (but line breaks) and no control word."""
    return not any(_is_dangerous(char) for char in text if char != "\n") and _CONTROL_WORD.search(text) is None

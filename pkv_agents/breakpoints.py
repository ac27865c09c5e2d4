"""Breakpoints: where a request should carry cache markers, for providers that cache only what is marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ._marks import is_markable, is_point, markers, with_markers
from .messages import Message
from .notices import Notice
from .profiles import Profile, Ttl

_YOURS = "yours"


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A place for a marker: the end of one content block.

    Attributes:
        message: The index of the message in the request.
        part: The index of its content part; 0 where the content is plain text.
        why: What it is for: `newest`, `previous`, `head`, `reach`, or `yours` for one that the application set.
        ttl: How long the prefix up to there is to be kept.
    """

    message: int
    part: int
    why: str
    ttl: Ttl = "5m"


@dataclass(frozen=True, slots=True)
class BreakpointPlan:
    """All markers of a request.

    Attributes:
        breakpoints: Every marker that goes out on a message, the application's among them, in the request's order.
        notices: What was left out or shortened of the application's.
    """

    breakpoints: tuple[Breakpoint, ...] = ()
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class _Block:
    """A content block: one of a message's parts (None: a tool call, which has no part)."""

    message: int
    part: int | None
    markable: bool


def plan_breakpoints(
    messages: Sequence[Message],
    profile: Profile,
    *,
    ttl: Ttl = "5m",
    head_ttl: Ttl | None = None,
    ahead: Sequence[Ttl] = (),
    automatic: bool = False,
) -> BreakpointPlan:
    """Choose where a request's markers stand.

    The newest message is marked, so that the next request can read up to there; the message that was the newest one in
    the last request, so that this one finds that marker exactly, however many blocks were added since (a lookup reaches
    only `lookback_blocks` back); the system message, which outlives an edited history and is shared by sessions; and,
    after a long step, a block from which a lookup can still be served when the step's end was edited.

    Markers that the application has set come before ours where a lookup does not need ours. Where they are too many,
    the newest of them stay. A longer lifetime must stand before a shorter one, or providers refuse the request: ours
    follow the application's, and what is still too long is shortened, which never costs more.

    Args:
        messages: The wire form, system message first; it is not changed.
        profile: What the provider allows.
        ttl: The lifetime for our markers.
        head_ttl: Another one for the system message's.
        ahead: The lifetimes of markers that stand before all messages, on tools.
        automatic: The request asks the provider to mark its end by itself (a `cache_control` of the whole request).

    Returns:
        At most as many markers as the provider still takes; none where caching is automatic.
    """
    if not profile.max_breakpoints:
        return BreakpointPlan()
    blocks = _blocks(messages, profile)
    at_end = profile.implicit_breakpoint or automatic
    limit = max(0, profile.max_breakpoints - len(ahead) - at_end)
    own, misplaced = _own(messages, blocks)
    needed, useful = _wanted(messages, blocks, profile, at_end=at_end)
    chosen: dict[int, str] = {}
    for index, why in [*needed, *((index, _YOURS) for index in reversed(own)), *useful]:
        if len(chosen) < limit or index in chosen:
            chosen.setdefault(index, why)
    points: list[Breakpoint] = []
    for index, why in sorted(chosen.items()):
        asked = own.get(index, head_ttl if why == "head" and head_ttl else ttl)
        offered: Ttl = asked if asked in profile.ttls else "5m"
        points.append(
            Breakpoint(blocks[index].message, blocks[index].part or 0, _YOURS if index in own else why, offered)
        )
    timed = _in_order(points, ahead)
    dropped = [*misplaced, *(_path(blocks[index]) for index in own if index not in chosen)]
    shortened = [_path(old) for old, new in zip(points, timed, strict=True) if old.ttl == "1h" and new.ttl == "5m"]
    return BreakpointPlan(tuple(timed), (*_dropped(dropped, profile), *_shortened(shortened)))


def apply_breakpoints(messages: Sequence[Message], planned: BreakpointPlan, profile: Profile) -> tuple[Message, ...]:
    """Put the planned markers on copies of messages, as the provider spells them.

    Args:
        messages: The messages that they were planned for; they are not changed.
        planned: What `plan_breakpoints` chose.
        profile: The provider.

    Returns:
        The messages, with exactly these markers. Where caching is automatic none is left, so that no other provider's
        keys go out after a fallback; where nothing is known of the provider's cache, markers stay as they are.
    """
    if profile.max_breakpoints is None and not profile.automatic:
        return tuple(messages)
    wanted: dict[int, dict[int, Ttl]] = {}
    for point in planned.breakpoints:
        wanted.setdefault(point.message, {})[point.part] = point.ttl
    return tuple(with_markers(message, wanted.get(at, {}), profile.marker) for at, message in enumerate(messages))


def _blocks(messages: Sequence[Message], profile: Profile) -> list[_Block]:
    blocks: list[_Block] = []
    for at, message in enumerate(messages):
        content = message.content
        takes = message.role != "assistant" or profile.marker != "prompt_cache_breakpoint"  # OpenAI: input blocks only
        if isinstance(content, str):
            blocks += [_Block(at, 0, takes and bool(content.strip()))] if content else []
        else:
            parts = [(index, part) for index, part in enumerate(content) if not is_point(part)]
            blocks += [_Block(at, index, takes and is_markable(part)) for index, part in parts]
        blocks += [_Block(at, None, markable=False) for _ in message.tool_calls]
    return blocks


def _own(messages: Sequence[Message], blocks: Sequence[_Block]) -> tuple[dict[int, Ttl], list[str]]:
    """The application's markers by block, and the places of those that no provider would take."""
    index = {(block.message, block.part): at for at, block in enumerate(blocks) if block.markable}
    own: dict[int, Ttl] = {}
    misplaced: list[str] = []
    for at, message in enumerate(messages):
        for part, ttl in markers(message).items():
            if (at, part) in index:
                own[index[at, part]] = ttl
            else:
                misplaced.append(f"messages[{at}].content[{max(part, 0)}]")
    return own, misplaced


def _wanted(
    messages: Sequence[Message], blocks: Sequence[_Block], profile: Profile, *, at_end: bool
) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """The blocks that we would mark: those that the next lookup needs, and those that are useful; best first."""
    newest = _last_markable(blocks, len(messages))
    if newest is None:
        return [], []
    needed: list[tuple[int, str]] = [] if at_end else [(newest, "newest")]
    useful: list[tuple[int, str]] = []
    reach: list[tuple[int, str]] = []
    answers = [at for at, message in enumerate(messages) if message.role == "assistant"]
    previous = _last_markable(blocks, answers[-1]) if answers else None
    if previous is not None:
        # Half of what is documented ("about 20"), for adapters may split a block in two.
        near = profile.lookback_blocks is not None and newest - previous < profile.lookback_blocks // 2
        (useful if near else needed).append((previous, "previous"))
        if profile.lookback_blocks is not None and not near:
            reached = range(max(previous + 1, newest - profile.lookback_blocks + 1), newest)
            reach = [(at, "reach") for at in reached if blocks[at].markable][:1]
    head = _last_markable(blocks, 1) if messages[0].role == "system" else None
    if head is not None:
        useful.append((head, "head"))
    return needed, [*useful, *reach]


def _last_markable(blocks: Sequence[_Block], before: int) -> int | None:
    """The last block that can be marked in the first so many messages."""
    return next(
        (at for at in range(len(blocks) - 1, -1, -1) if blocks[at].markable and blocks[at].message < before), None
    )


def _in_order(points: Sequence[Breakpoint], ahead: Sequence[Ttl]) -> list[Breakpoint]:
    """Markers whose lifetimes never grow: ours grow before a long one of the application's, the rest shrinks."""
    long_until = -1
    for at, point in enumerate(points):
        if point.why == _YOURS:
            if point.ttl == "5m":
                break
            long_until = at
    short = "5m" in ahead
    timed: list[Breakpoint] = []
    for at, point in enumerate(points):
        ttl: Ttl = "1h" if at < long_until else point.ttl
        short = short or ttl == "5m"
        timed.append(replace(point, ttl="5m" if short else ttl))
    return timed


def _path(place: _Block | Breakpoint) -> str:
    return f"messages[{place.message}].content[{place.part}]"


def _dropped(paths: Sequence[str], profile: Profile) -> list[Notice]:
    if not paths:
        return []
    return [
        Notice(
            "markers_dropped",
            path=", ".join(paths),
            cost="the prefix up to there is cached only as part of a longer one",
            mend=f"set fewer markers ({profile.name} takes {profile.max_breakpoints} in a request), and none on an"
            " empty block or a thought",
            message=f"cache markers of yours were left out: {len(paths)}",
        )
    ]


def _shortened(paths: Sequence[str]) -> list[Notice]:
    if not paths:
        return []
    return [
        Notice(
            "marker_ttl",
            path=", ".join(paths),
            cost="the prefix up to there is kept for 5 minutes, not for an hour",
            mend="give the markers before it an hour too, the ones on tools included",
            message="a marker for an hour stood behind one for 5 minutes, which providers refuse",
        )
    ]


__all__ = ["Breakpoint", "BreakpointPlan", "apply_breakpoints", "plan_breakpoints"]

"""Training rows: a whole conversation as token ids (the trunk), with further questions that branch off it.

The trunk's bytes are those that the library sends: tools block, policy, baseline, and after a request the erratum of
what changed (tests/example holds that a trunk equals the library's own rendering of the same conversation). A branch is
one more request after some turn; it sees the trunk up to there and itself, so that many decisions share one prefix.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from pkv_agents import Snapshot, apply_patch, diff, fold, render_baseline, render_erratum, snapshot

from ..policy import Request, field_path, read_field
from ..schema import Shop
from ..vocabulary import TOOL_DOCS, TOPICS
from ..worlds import Size, World, draw_world

Head = Literal["errata", "end", "top"]
"""Where the state stands: told by errata, or rewritten at the head's end or near its top."""

_TAGS = "abcdefghijklmnopqrstuvwxyz234567"
_CALL = '{"name":"'
_FIRST, _REST = 1.0, 0.1  # the first token of the value and of the tool's name decide; the rest is copied


class Tokenizer(Protocol):
    """What the rows need of a tokenizer."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...
    def convert_tokens_to_ids(self, tokens: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """One scored answer: the index of its deciding token (the logits before it predict it), and its kind."""

    index: int
    kind: str


@dataclass(frozen=True, slots=True)
class Branch:
    """A question off the trunk: tokens `[start, stop)` of the row, seeing the trunk's first `point` tokens."""

    point: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Row:
    """A conversation in tokens.

    Attributes:
        ids: The trunk's token ids, then the branches'.
        weights: The loss weight of each token (0 for everything that is not an answer).
        answers: The deciding tokens.
        branches: The branches, in order.
        trunk: How many tokens the trunk has.
        head: How many tokens stand before the first message.
    """

    ids: tuple[int, ...]
    weights: tuple[float, ...]
    answers: tuple[Answer, ...]
    branches: tuple[Branch, ...]
    trunk: int
    head: int


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How to draw a row: the world's size, where its state stands, and how much is left out for an easy start."""

    size: Size
    head: Head = "errata"
    tools: bool = True
    keep: float = 1.0
    branches: int = 0
    level: int = 0


def tools_block() -> str:
    """The block with which the local engine shows tools to a template that has no place for them."""
    lines = ["# Tools", 'Answer with one JSON object: {"name": tool, "arguments": {...}}']
    lines += [f"- {doc.name}({', '.join(doc.arguments)}): {doc.description}" for doc in TOOL_DOCS]
    return "\n".join(lines)


def call_text(tool: str, arguments: dict[str, str]) -> str:
    """A tool call as the model writes it."""
    return json.dumps({"name": tool, "arguments": arguments}, separators=(",", ":"), ensure_ascii=False)


def reason_text(world: World, state: Shop, request: Request) -> tuple[str, str]:
    """The line before the call, in two parts: the path that decides, and its value."""
    name = world.rules[request.topic].field
    return f"{field_path(name, request.order_id)}: ", f'"{read_field(state, name, request.order_id)}"'


class RowMaker:
    """Draws rows.

    Args:
        tokenizer: The embedded model's.
        rng: The source of all randomness.
    """

    def __init__(self, tokenizer: Tokenizer, rng: random.Random) -> None:
        self._tokenizer = tokenizer
        self._rng = rng
        self._start = tokenizer.convert_tokens_to_ids("<|im_start|>")
        self._end = tokenizer.convert_tokens_to_ids("<|im_end|>")
        self._replies = {doc.name: doc.reply for doc in TOOL_DOCS}
        self._topics = {topic.name: topic for topic in TOPICS}

    def draw(self, plan: RowPlan) -> Row:
        """A random world of the plan's size, as a row."""
        return self.row(draw_world(self._rng, plan.size), plan)

    def row(self, world: World, plan: RowPlan) -> Row:
        """A given world as a row."""
        tag = "".join(self._rng.choice(_TAGS) for _ in range(4))
        states = list(_states(world))
        settled = self._rng.randrange(max(1, len(states) * 2 // 3)) if plan.head != "errata" else 0
        keep = self._kept(world, plan.keep)
        writer = _Writer(self._tokenizer, self._start, self._end)
        shown = _view(states[settled] if plan.head != "errata" else world.shop, keep, plain=plan.head != "errata")
        writer.turn("system", self._system(world, plan, shown, tag))
        head = writer.length
        first = told = _view(world.shop, keep).without_volatile()
        for index, request in enumerate(world.requests):
            rewritten = plan.head != "errata"
            state = states[settled] if rewritten and index > settled else states[index]
            writer.turn("user", request.text)
            now = _view(state, keep)
            if not rewritten and (changes := diff(told, now)):
                writer.turn("system", render_erratum(changes, tag=tag))
                told = fold(told, changes)
            scored = not rewritten or index >= settled
            kind = plan.head if rewritten else _kind(world, request, first, told)
            self._answer(writer, world, request, state, kind if scored else None)
            if scored:
                self._branch(writer, world, state, plan, index, first=first, told=told, tag=tag)
        return writer.row(head)

    def _kept(self, world: World, share: float) -> frozenset[str] | None:
        if share >= 1:
            return None
        needed = {field_path(r.field, o.id) for r in world.rules.values() for o in world.shop.orders}
        return frozenset(p for p in snapshot(world.shop) if p in needed or self._rng.random() < share)

    def _system(self, world: World, plan: RowPlan, view: Snapshot, tag: str) -> str:
        state = render_baseline(view, tag=tag)
        opening, _, rest = world.policy.partition("\n\n")
        parts = [opening, state, rest] if plan.head == "top" else [world.policy, state]
        return "\n\n".join([tools_block(), *parts] if plan.tools else parts)

    def _answer(self, writer: _Writer, world: World, request: Request, state: Shop, kind: str | None) -> None:
        tool, arguments = world.answer(state, request)
        writer.answer(reason_text(world, state, request), tool, arguments, kind)
        writer.turn("tool", self._replies[tool].format(**{"town": "", **arguments}))

    def _branch(
        self,
        writer: _Writer,
        world: World,
        state: Shop,
        plan: RowPlan,
        index: int,
        *,
        first: Snapshot,
        told: Snapshot,
        tag: str,
    ) -> None:
        """Ask further questions here; the last turn gets twice its share."""
        turns = len(world.requests)
        count = plan.branches * (2 if index == turns - 1 else 1) // (turns + 1)
        pairs = [(topic, order.id) for topic in world.rules for order in state.orders]
        chosen = self._rng.sample(pairs, min(count, len(pairs)))
        if "address change" in world.rules and count:
            chosen.append(("address change", self._rng.choice(state.orders).id))  # a town is copied nowhere else
        for topic, order in chosen:
            town = self._rng.choice(plan.size.vocabulary.towns)
            text = self._rng.choice(self._topics[topic].requests).format(id=order, town=town)
            request = Request({}, topic, order, text, town)
            tool, arguments = world.answer(state, request)
            kind = plan.head if plan.head != "errata" else _kind(world, request, first, told)
            writer.branch(text, reason_text(world, state, request), tool, arguments, kind)


def _kind(world: World, request: Request, first: Snapshot, told: Snapshot) -> str:
    """`flip` if the deciding field is no longer what the baseline says, `back` is part of `same`."""
    path = field_path(world.rules[request.topic].field, request.order_id)
    return "flip" if first[path] != told[path] else "same"


def _states(world: World) -> Iterator[Shop]:
    shop = world.shop
    for request in world.requests:
        shop = apply_patch(shop, request.patch)
        yield shop


def _view(shop: Shop, keep: frozenset[str] | None, *, plain: bool = False) -> Snapshot:
    """The snapshot to show: some leaves left out for an easy start; `plain` shows the clock like any other field."""
    view = snapshot(shop)
    leaves = {path: text for path, text in view.leaves.items() if keep is None or path in keep}
    return Snapshot(leaves) if plain else replace(view, leaves=leaves)


class _Writer:
    """Collects the tokens of a row."""

    def __init__(self, tokenizer: Tokenizer, start: int, end: int) -> None:
        self._tokenizer, self._start, self._end = tokenizer, start, end
        self._newline = self._encode("\n")
        self._lead = [start, *self._encode("assistant\n")]
        self._ids: list[int] = []
        self._weights: list[float] = []
        self._answers: list[Answer] = []
        self._branches: list[tuple[int, list[int], list[float], list[Answer]]] = []

    @property
    def length(self) -> int:
        return len(self._ids)

    def turn(self, role: str, text: str) -> None:
        """A turn that is read and not scored."""
        ids = self._turn(role, text)
        self._ids += ids
        self._weights += [0.0] * len(ids)

    def answer(self, reason: tuple[str, str], tool: str, arguments: dict[str, str], kind: str | None) -> None:
        """The agent's turn; scored if it has a kind."""
        ids, weights, answers = self._scored(reason, tool, arguments, kind or "")
        ids += [self._end, *self._newline]
        weights += [_REST] + [0.0] * len(self._newline)
        if kind is not None:
            self._answers += [Answer(len(self._ids) + answer.index, answer.kind) for answer in answers]
        self._ids += ids
        self._weights += weights if kind is not None else [0.0] * len(ids)

    def branch(self, text: str, reason: tuple[str, str], tool: str, arguments: dict[str, str], kind: str) -> None:
        """One more request here, up to and with the last token that decides."""
        turn = self._turn("user", text)
        ids, weights, answers = self._scored(reason, tool, arguments, kind)
        stop = max(index for index, weight in enumerate(weights) if weight > _REST) + 1
        shifted = [Answer(len(turn) + answer.index, answer.kind) for answer in answers]
        self._branches.append((len(self._ids), turn + ids[:stop], [0.0] * len(turn) + weights[:stop], shifted))

    def _scored(
        self, reason: tuple[str, str], tool: str, arguments: dict[str, str], kind: str
    ) -> tuple[list[int], list[float], list[Answer]]:
        """The tokens of an answer from the turn's start on, their weights, and the tokens that decide."""
        path, value = reason
        line = f"{path}{value}\n"
        text = line + call_text(tool, arguments)
        ids = self._encode(text)
        at_value, at_tool, after_tool = (
            len(self._encode(part)) for part in (path + '"', line + _CALL, f"{line}{_CALL}{tool}")
        )
        weights = [_REST] * len(ids)
        weights[0] = weights[at_value] = weights[at_tool] = _FIRST
        weights[len(self._encode(path.removesuffix(": "))) - 1] = _FIRST / 2
        for forced in (*range(len(self._encode(path + value)) + 1, at_tool), *range(at_tool + 1, after_tool)):
            weights[forced] = 0.0
        lead = len(self._lead)
        answers = [Answer(lead + at_value, f"{kind} value"), Answer(lead + at_tool, f"{kind} tool")]
        if town := arguments.get("town"):
            start = len(self._encode(text[: text.index('"town":"') + len('"town":"')]))
            weights[start : start + len(self._encode(town))] = [_FIRST / 2] * len(self._encode(town))
            answers.append(Answer(lead + start, f"{kind} town"))
        return [*self._lead, *ids], [0.0] * lead + weights, answers

    def row(self, head: int) -> Row:
        """Everything that was collected."""
        ids, weights, answers = list(self._ids), list(self._weights), list(self._answers)
        branches: list[Branch] = []
        for point, tokens, scored, deciding in self._branches:
            start = len(ids)
            branches.append(Branch(point, start, start + len(tokens)))
            ids += tokens
            weights += scored
            answers += [Answer(start + answer.index, answer.kind) for answer in deciding]
        return Row(tuple(ids), tuple(weights), tuple(answers), tuple(branches), len(self._ids), head)

    def _turn(self, role: str, text: str) -> list[int]:
        return [self._start, *self._encode(f"{role}\n{text}"), self._end, *self._newline]

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)

"""Chooses tokens: greedy or sampled, under a constraint, until the answer ends."""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import cast

import torch

from pkv_agents.kv import Slab
from pkv_agents.local.grammar import Constraint
from pkv_agents.local.options import GenerationOptions, Reply
from pkv_agents.local.template import ChatTokenizer
from pkv_agents.local.text import TextStream
from pkv_agents.local.turns import function_of
from pkv_agents.messages import ToolCall


class Decoder:
    """One answer in the making. It never touches the model: logits come in, tokens to forward go out.

    Args:
        tokenizer: Decodes the answer.
        options: What was asked.
        constraint: What the answer may be; None for free text.
        stop_ids: Ids that end an answer.
        budget: Most tokens of the answer.
    """

    def __init__(
        self,
        tokenizer: ChatTokenizer,
        options: GenerationOptions,
        constraint: Constraint | None,
        *,
        stop_ids: frozenset[int],
        budget: int,
    ) -> None:
        self.budget = budget
        self.finished = False
        self._options = options
        self._constraint = constraint
        self._stop_ids = stop_ids
        self._known = len(tokenizer)
        self._stream = TextStream(tokenizer, options.stop if constraint is None else ())
        self._count = 0
        self._fresh: list[int] = []
        self._reason = "length"
        self._first_s: float | None = None
        self._margin: float | None = None
        self._random = torch.Generator()
        self._random.manual_seed(secrets.randbits(63) if options.seed is None else options.seed)

    @property
    def text(self) -> str:
        """The text handed out so far."""
        return self._stream.text

    def begin(self) -> list[int]:
        """Tokens that are forced before the model has said anything; they are forwarded with the prompt."""
        return self._forced()

    def choose(self, logits: torch.Tensor) -> list[int]:
        """Takes the last position's logits; returns the tokens to forward next (none if the answer is finished)."""
        full = self._count >= self.budget or (self._constraint is not None and self._constraint.finished)
        taken = [] if full else self._decide(logits)
        if self._first_s is None:
            self._first_s = time.perf_counter()
        if not self.finished:
            taken += self._forced()
            self._settle()
        return taken

    def take_text(self) -> str:
        """Text that became certain since the last time. A call that is being written is no text."""
        fresh, self._fresh = self._fresh, []
        piece = self._stream.push(fresh)
        if self._stream.stopped:
            self.finished, self._reason = True, "stop"
        return piece if self._streams_text else ""

    def end(self) -> str:
        """Ends the answer; returns the text that was held back."""
        piece = self._stream.finish()
        if self._streams_text:
            return piece
        call = self._parsed_call()
        return self._preface() if call else self._stream.text

    def kept_ids(self) -> list[int]:
        """The ids that stand for the text handed out so far."""
        return self._stream.kept_ids()

    def reply(self, *, prompt_tokens: int, cached_tokens: int, started: float) -> Reply:
        """The finished answer."""
        call = self._parsed_call()
        now = time.perf_counter()
        return Reply(
            text=self._preface() if call else self._stream.text,
            tool_calls=(call,) if call else (),
            finish_reason="tool_calls" if call else self._reason,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            output_tokens=self._count,
            ttft_s=(self._first_s or now) - started,
            total_s=now - started,
            ids=tuple(self._stream.kept_ids()),
            decision_margin=self._margin,
        )

    @property
    def _streams_text(self) -> bool:
        return self._constraint is None or self._constraint.released or not self._options.tools

    def _forced(self) -> list[int]:
        if self._constraint is None:
            return []
        tokens = self._constraint.forced(self.budget - self._count)
        self._keep(tokens)
        return tokens

    def _decide(self, logits: torch.Tensor) -> list[int]:
        scores = logits[: self._known].float()
        allowed = None if self._constraint is None else self._constraint.allowed()
        if allowed is not None:
            mask = torch.as_tensor(allowed[: self._known])
            scores = scores.masked_fill(~mask.to(scores.device), -math.inf)
        if self._margin is None and not (self._constraint is not None and self._constraint.in_preface):
            best = torch.topk(scores, 2).values
            self._margin = float(best[0] - best[1])
        token = self._pick(scores)
        if token in self._stop_ids:
            if self._constraint is not None:
                self._constraint.accept(token, self.budget - self._count)
            self.finished, self._reason = True, "stop"
            self._count += 1
            return []
        taken = [token] if self._constraint is None else self._constraint.accept(token, self.budget - self._count)
        self._keep(taken)
        return taken

    def _pick(self, scores: torch.Tensor) -> int:
        if self._options.temperature == 0:
            return int(scores.argmax())
        weights = torch.softmax(scores.cpu() / self._options.temperature, dim=-1)
        return int(torch.multinomial(weights, 1, generator=self._random))

    def _keep(self, tokens: list[int]) -> None:
        self._fresh += tokens
        self._count += len(tokens)

    def _settle(self) -> None:
        if self._constraint is not None and not self._constraint.released and self._constraint.finished:
            self.finished, self._reason = True, "stop"
        elif self._count >= self.budget:
            self.finished = True

    def _preface(self) -> str:
        """The line before the call; empty if there was to be none."""
        return self._stream.text.partition("\n")[0] if self._options.preface and self._has_preface else ""

    @property
    def _has_preface(self) -> bool:
        return not self._stream.text.startswith("{")

    def _parsed_call(self) -> ToolCall | None:
        """The tool call that the answer is; None if it is text, or was cut off by the budget."""
        text = (
            self._stream.text.partition("\n")[2] if self._options.preface and self._has_preface else self._stream.text
        )
        if self._constraint is None or self._constraint.released or not text.startswith('{"name":'):
            return None
        names = {str(function_of(tool)["name"]) for tool in self._options.tools}
        try:
            parsed = json.loads(text)
        except ValueError:
            return None
        call = cast("Mapping[str, object]", parsed)
        if set(call) != {"name", "arguments"} or call["name"] not in names:
            return None
        return ToolCall(
            str(call["name"]), cast("Mapping[str, object]", call["arguments"]), f"call_{secrets.token_hex(6)}"
        )


def cut_behind(slab: Slab, prompt: int, ids: Sequence[int]) -> None:
    """Drops forwarded tokens that are no part of the answer (a stop string cut them off)."""
    common = prompt
    for have, want in zip(slab.ids[prompt:].tolist(), ids, strict=False):
        if have != want:
            break
        common += 1
    slab.crop(min(slab.length, common))

"""A loaded Hugging Face model as a chat model with a prefix cache.

    render -> lease a slab -> forward what is not cached -> choose -> forward -> choose ... -> remember the ids

Only `HFModel.forward` touches the model. A token is forwarded when the one behind it needs a decision; what a grammar
forces is forwarded together with it, and the last token of an answer waits for the next turn.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Unpack

from pkv_agents.errors import ContextLengthError, UnsupportedModelError
from pkv_agents.kv import (
    EXACT,
    CacheKey,
    CacheStats,
    DiskStore,
    HFModel,
    Lease,
    ModelFacts,
    PrefixCache,
    SegmentModel,
    Slab,
)
from pkv_agents.local.approximate import Approximations, Prepared
from pkv_agents.local.decode import Decoder, cut_behind
from pkv_agents.local.edit_verdicts import EditVerdicts
from pkv_agents.local.grammar import GrammarFactory
from pkv_agents.local.head_lines import skeleton_of
from pkv_agents.local.options import Delta, Done, GenerationOptions, OptionFields, Reply, StreamEvent
from pkv_agents.local.qualification import Qualification
from pkv_agents.local.skills import PREAMBLE
from pkv_agents.local.template import ChatTemplate, Rendered
from pkv_agents.local.turns import assistant_text
from pkv_agents.local.verdict import TemplateVerdict, notices_of, profile_of
from pkv_agents.messages import Message
from pkv_agents.notices import Notice

if TYPE_CHECKING:
    import torch

    from pkv_agents.profiles import Profile


class LocalModel:
    """A chat model on a loaded transformers model, with a token-exact prefix cache. Safe for many threads.

    Args:
        model: A causal language model in evaluation mode, plain or with a peft adapter. Device and type are its own.
        tokenizer: Its fast tokenizer, with a chat template.
        cache_bytes: What idle cache entries may hold.
        skill_store: Where compiled skills are kept; None keeps the latest in memory, in half of `cache_bytes` at most.
        skill_preamble: What stands before a skill while it is compiled, behind the opening of a system turn.
        adapter_name: Adapter that must be active; None takes the one active now. An engine serves one adapter.
        template_options: Variables of the chat template (`{"enable_thinking": False}`), the same for all requests.
        qualification: What `qualify` found out about this model; it decides what `probe` holds an edit against.

    Attributes:
        template: The chat template: it renders, tokenises, and knows where a head ends.
        verdicts: Which fields the edit mode `auto` may edit in place; `probe` fills it.
        qualification: What is known of the model.
        skills: Compiles skills ahead (`skills.compile`), and puts them in place.

    Raises:
        UnsupportedModelError: If the model's cache cannot be handled exactly; the message has the reason.
        TemplateError: If the tokenizer has no usable chat template.
        AdapterError: If the adapter is not the active one.
    """

    def __init__(
        self,
        model: object,
        tokenizer: object,
        *,
        cache_bytes: int = 2 << 30,
        skill_store: DiskStore | None = None,
        skill_preamble: str = PREAMBLE,
        adapter_name: str | None = None,
        template_options: Mapping[str, object] | None = None,
        qualification: Qualification | None = None,
    ) -> None:
        self.template = ChatTemplate(tokenizer, options=template_options or {})
        self._model = HFModel(model, adapter=adapter_name)
        facts = self._model.facts
        self._stop_ids: frozenset[int] = facts.stop_ids | self.template.stop_tokens
        self._grammars = GrammarFactory(tokenizer, vocab_size=facts.vocab_size, stop_ids=self._stop_ids)
        self._cache = PrefixCache(facts.shape, budget=cache_bytes, limit=facts.context_limit)
        self.verdicts = EditVerdicts()
        self.qualification = qualification
        if qualification is not None and qualification.fingerprint != facts.fingerprint:
            raise UnsupportedModelError("this qualification is of another model: run qualify on this one")
        self._approximations = Approximations(
            lambda: SegmentModel(model, adapter=adapter_name),
            self._cache,
            self.template,
            store=skill_store,
            preamble=skill_preamble,
            allows=self.verdicts.allows,
        )
        self.skills = self._approximations.placer

    @property
    def facts(self) -> ModelFacts:
        """What the engine learnt about the model."""
        return self._model.facts

    @property
    def fingerprint(self) -> str:
        """Identifies configuration and weights."""
        return self.facts.fingerprint

    @property
    def reference(self) -> str:
        """The edit mode that cheaper ones are held against: what `qualify` found, else `full`."""
        return self.qualification.reference if self.qualification is not None else "full"

    @property
    def context_limit(self) -> int:
        """Most tokens of prompt and answer together."""
        return self._model.facts.context_limit

    @property
    def template_verdict(self) -> TemplateVerdict:
        """What the chat template does with late system turns, tools and growing histories."""
        return self.template.verdict

    @cached_property
    def profile(self) -> Profile:
        """The profile for planning: errata travel in the form that this chat template carries."""
        return profile_of(self.template_verdict)

    @cached_property
    def notices(self) -> tuple[Notice, ...]:
        """What a user should know about the chat template."""
        return notices_of(self.template_verdict)

    @property
    def cache_stats(self) -> CacheStats:
        """What the prefix cache holds and did."""
        return self._cache.stats()

    @property
    def segments(self) -> SegmentModel:
        """The same model as one whose KV segments can be cut, moved, joined and edited (an error if they cannot)."""
        return self._approximations.segments

    def clear_cache(self) -> None:
        """Drops every cache entry that is not in use."""
        self._cache.clear()
        self._approximations.forget()

    def check_integrity(self) -> None:
        """Raises AssertionError if the cache's own count does not add up."""
        self._cache.check_integrity()

    def render_ids(self, messages: Sequence[Message], tools: Sequence[Mapping[str, object]] = ()) -> list[int]:
        """The token ids of a request, ending where the answer begins."""
        return list(self.template.render(messages, tools).ids)

    def skeleton(self, messages: Sequence[Message], tools: Sequence[Mapping[str, object]] = ()) -> str:
        """Identifies a request's head without the values of its fields: verdicts are cached by it."""
        ids = self.template.render(messages, tools).ids
        return skeleton_of(self.template.text_of(ids[: self.template.head_size(ids)]))

    def logits(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, object]] = (),
        cold: bool = False,
        salt: str = "",
        session: str | None = None,
        edit_mode: str = "erratum",
        skills: Sequence[str] = (),
    ) -> torch.Tensor:
        """The logits of the first token of the answer, (vocab,).

        Args:
            messages: The conversation.
            tools: OpenAI function records.
            cold: Forward the whole prompt on a slab of its own instead of the cache.
            salt: The tenant.
            session: The conversation.
            edit_mode: See `GenerationOptions`.
            skills: See `GenerationOptions`.
        """
        asked = self._checked(self.template.render(messages, tools))
        if cold:
            slab = Slab(self._model.facts.shape, capacity=len(asked.ids), limit=self.context_limit)
            return self._model.forward(slab, asked.ids)
        wanted = GenerationOptions(salt=salt, session=session, edit_mode=edit_mode, skills=skills, max_tokens=1)
        with self._lease(asked, wanted, reserve=0) as (lease, ready):
            logits = self._model.forward(lease.slab, ready.ids[lease.cached :])
            self._approximations.remember(wanted, lease.slab.ids.tolist(), ready.origin)
        return logits

    def generate(self, messages: Sequence[Message], **options: Unpack[OptionFields]) -> Reply:
        """Answers a conversation.

        Args:
            messages: The conversation.
            **options: See `GenerationOptions`.

        Raises:
            ContextLengthError: If the prompt leaves no room for an answer; nothing was forwarded.
            GrammarError: If a schema cannot be expressed.
            TemplateError: If the template refuses the conversation.
        """
        for event in self.stream(messages, **options):
            if isinstance(event, Done):
                return event.reply
        raise AssertionError("a stream ends with Done")

    def stream(
        self, messages: Sequence[Message], **options: Unpack[OptionFields]
    ) -> Generator[StreamEvent, None, None]:
        """Answers a conversation piece by piece: `Delta`s of text, then one `Done`.

        Closing the stream early is safe: the cache keeps what was computed, and the text handed out so far is
        remembered with its ids.

        Args:
            messages: The conversation.
            **options: See `GenerationOptions`.
        """
        started = time.perf_counter()
        wanted = GenerationOptions(**options)
        constraint = self._grammars.for_answer(
            tools=wanted.tools,
            tool_choice=wanted.tool_choice,
            response_schema=wanted.response_schema,
            choices=wanted.choices,
            preface=wanted.preface,
        )
        asked = self._checked(self.template.render(messages, wanted.tools))
        budget = min(wanted.max_tokens, self.context_limit - len(asked.ids))
        decoder = Decoder(self.template.tokenizer, wanted, constraint, stop_ids=self._stop_ids, budget=budget)
        return self._run(asked, decoder, wanted, started)

    def _run(
        self, asked: Rendered, decoder: Decoder, wanted: GenerationOptions, started: float
    ) -> Generator[StreamEvent, None, None]:
        size = len(asked.ids)
        with self._lease(asked, wanted, reserve=decoder.budget) as (lease, ready):
            pending = [*ready.ids[lease.cached :], *decoder.begin()]
            try:
                while True:
                    logits = self._model.forward(lease.slab, pending)
                    pending = decoder.choose(logits)
                    if piece := decoder.take_text():
                        yield Delta(piece)
                    if decoder.finished:
                        break
                if piece := decoder.end():
                    yield Delta(piece)
                cached = max(0, lease.cached - ready.computed)
                reply = replace(
                    decoder.reply(prompt_tokens=size, cached_tokens=cached, started=started),
                    origin=ready.origin,
                    edited=ready.edited,
                )
                self.template.remember(asked, reply.ids, assistant_text(reply.message))
            except GeneratorExit:
                self.template.remember(asked, decoder.kept_ids(), decoder.text)
                raise
            cut_behind(lease.slab, len(ready.ids), reply.ids)
            self._approximations.remember(wanted, lease.slab.ids.tolist(), ready.origin)
        yield Done(reply)

    @contextmanager
    def _lease(
        self, asked: Rendered, wanted: GenerationOptions, *, reserve: int
    ) -> Generator[tuple[Lease, Prepared], None, None]:
        """A slab for a request, and what it rests on."""
        facts = self.facts
        key_of = partial(CacheKey, facts.fingerprint, facts.adapter, str(facts.shape.dtype), wanted.salt)
        ready = self._approximations.prepare(asked, wanted, key_of)
        lease = self._cache.lease(key_of(ready.origin), ready.ids, reserve=reserve, session=wanted.session)
        if lease.slab.origin != ready.origin:  # what it was to rest on has gone: prefill, and be exact
            lease.release()
            ready = Prepared(asked.ids)
            lease = self._cache.lease(key_of(EXACT), ready.ids, reserve=reserve, session=wanted.session)
        with lease:
            yield lease, ready

    def _checked(self, asked: Rendered) -> Rendered:
        if len(asked.ids) >= self.context_limit:
            raise ContextLengthError(
                f"the prompt has {len(asked.ids)} tokens, but the model's context ends at {self.context_limit} and an "
                "answer needs at least one: shorten the conversation or start a new one"
            )
        return asked

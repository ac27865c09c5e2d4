"""Constrained decoding: tool calls, JSON schemas and choices, on llguidance.

A grammar says which tokens may come next. Two things are added here:

- **Fast-forward.** Where only one continuation is possible its tokens are appended without asking the model; they are
  forwarded together with the next token that needs a decision. They are the tokens that the tokenizer itself would use.
- **Closing in time.** A model may write a string for ever. In the last part of the token budget a token is taken only
  if the answer can still be completed behind it; so an answer is valid whenever the budget holds one at all.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from llguidance import LLMatcher

from pkv_agents.errors import GrammarError
from pkv_agents.local.constraint import Constraint, trie
from pkv_agents.local.schema import arguments_schema, prepared
from pkv_agents.local.token_table import TokenTable, reason
from pkv_agents.local.turns import function_of

_GRAMMARS = 256
"""Compiled grammars that are remembered."""


class GrammarFactory:
    """Compiles grammars for one tokenizer and remembers them.

    Args:
        tokenizer: A fast transformers tokenizer.
        vocab_size: Width of the model's logits.
        stop_ids: Ids that end an answer.
    """

    def __init__(self, tokenizer: object, *, vocab_size: int, stop_ids: frozenset[int]) -> None:
        self._table = TokenTable(tokenizer, vocab_size=vocab_size, stop_ids=stop_ids)
        self._compiled: OrderedDict[str, LLMatcher] = OrderedDict()
        self._lock = threading.RLock()

    def for_answer(
        self,
        *,
        tools: Sequence[Mapping[str, object]] = (),
        tool_choice: str = "auto",
        response_schema: Mapping[str, object] | None = None,
        choices: Sequence[str] | None = None,
        preface: int = 0,
    ) -> Constraint | None:
        """The constraint of a request; None if the answer is free text.

        Raises:
            GrammarError: If a schema is malformed or not supported, a tool is unknown, or demands contradict.
        """
        if choices is not None:
            if response_schema is not None:
                raise GrammarError("choices and response_schema exclude each other")
            matcher = self._matcher(_choices_grammar(choices), "choices")
            return Constraint(self._table, matcher, free=False, usual=trie(map(self._table.encode, choices)))
        chosen = _chosen(tools, tool_choice)
        rules = [self._call_rule(index, tool) for index, tool in enumerate(chosen)]
        names = [rule.partition(":")[0] for rule in rules]
        if response_schema is not None and tool_choice in {"auto", "none"}:
            rules.append(f"response: %json {self._checked(response_schema, 'response_schema')}")
            names.append("response")
        if not rules:
            return None
        start = " | ".join(names)
        noted = bool(preface) and tool_choice not in {"auto", "none"}
        if noted:
            start = f"PREFACE ({start})"
            rules.append(f"PREFACE: /[^{{\\n]{{1,{preface}}}\\n/")
        lark = "\n".join([f"start: {start}", *rules])
        free = tool_choice == "auto" and response_schema is None
        # The last token may merge with what follows, so it is left to the grammar.
        usual = trie(self._table.encode(_opening(function_of(tool)["name"]))[:-1] for tool in chosen)
        return Constraint(self._table, self._matcher(lark, "the answer"), free=free, usual=usual, preface=noted)

    def _call_rule(self, index: int, tool: Mapping[str, object]) -> str:
        function = function_of(tool)
        schema = self._checked(arguments_schema(function.get("parameters")), f"tool {function['name']!r}")
        opening = json.dumps(_opening(function["name"]), ensure_ascii=False)
        return f'call_{index}: {opening} arguments_{index} "}}"\narguments_{index}: %json {schema}'

    def _checked(self, schema: object, where: str) -> str:
        """Compiles one schema alone, so that a fault is reported with its name."""
        text = prepared(schema, where)
        self._matcher(f"start: value\nvalue: %json {text}", f"the schema of {where}")
        return text

    def _matcher(self, lark: str, where: str) -> LLMatcher:
        """A fresh matcher for a grammar."""
        with self._lock:
            matcher = self._compiled.get(lark)
            if matcher is None:
                matcher = LLMatcher(self._table.tokens, LLMatcher.grammar_from_lark(lark), log_level=0)
                if matcher.is_error():
                    raise GrammarError(f"{where} cannot be used for constrained decoding: {reason(matcher)}")
                self._compiled[lark] = matcher
                while len(self._compiled) > _GRAMMARS:
                    self._compiled.popitem(last=False)
            self._compiled.move_to_end(lark)
            return matcher.deep_copy()


def _chosen(tools: Sequence[Mapping[str, object]], choice: str) -> Sequence[Mapping[str, object]]:
    names = [str(function_of(tool)["name"]) for tool in tools]
    if twice := {name for name in names if names.count(name) > 1}:
        raise GrammarError(f"two tools have the name {min(twice)!r}")
    if choice == "none":
        return ()
    if choice in {"auto", "any"}:
        if choice == "any" and not tools:
            raise GrammarError("tool_choice is 'any', but no tools are given")
        return tools
    if choice not in names:
        raise GrammarError(f"tool_choice names {choice!r}, which is none of the tools ({', '.join(names) or 'none'})")
    return [tools[names.index(choice)]]


def _opening(name: object) -> str:
    return f'{{"name":{json.dumps(name, ensure_ascii=False)},"arguments":'


def _choices_grammar(choices: Sequence[str]) -> str:
    if isinstance(choices, str) or not choices or "" in choices:
        raise GrammarError("choices is a list of texts, none of them empty")
    return "start: " + " | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)

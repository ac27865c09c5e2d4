"""How a session tells by its head: for wrappers of the two frameworks, which plan for themselves."""

from __future__ import annotations

from pkv_agents.session import DEFAULT_POLICY, RebasePolicy

REWRITE_HEAD = RebasePolicy(
    payback=None,
    floor_tokens=0,
    ratio=0.0,
    statements=DEFAULT_POLICY.statements,
    when_cold=False,
    restate_after_tokens=DEFAULT_POLICY.restate_after_tokens,
)
"""Folds each change into the head at once, so that a local model with `edit_mode="in_place"` edits it in its cache.

    session = AgentSession(shop, key="user-42", rebase_policy=REWRITE_HEAD)
    llm = with_state(LocalChatModel(local=model, session="user-42", edit_mode="in_place"), session)

Each change is a new epoch in the ledger, whose baseline is the state: what was told is true, also where no cache could
be edited and the head was prefilled.
"""

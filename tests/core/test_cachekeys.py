"""Cache keys: one for all that share a head, spread by session, and nothing readable in them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkv_agents import ANTHROPIC, OPENAI, ProfileError, ToolSpec, cache_key, shards_for

LOOK = ToolSpec("look", "Look up an order.", {"type": "object", "properties": {"id": {"type": "string"}}})


def test_it_is_the_same_in_every_process() -> None:
    expected = cache_key("acme", "Be kind.", tools=[LOOK], session="user-42", shards=4)
    code = (
        "from pkv_agents import ToolSpec, cache_key;"
        "look = ToolSpec('look', 'Look up an order.', {'properties': {'id': {'type': 'string'}}, 'type': 'object'});"
        "print(cache_key('acme', 'Be kind.', tools=[look], session='user-42', shards=4))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


def test_tenant_instructions_and_tools_decide_the_session_only_the_shard() -> None:
    def of(tenant: str = "acme", text: str = "Be kind.", tool: ToolSpec = LOOK, session: str = "a") -> str:
        return cache_key(tenant, text, tools=[tool], session=session)

    assert of() == of(session="b")
    others = [of(tenant="bee"), of(text="Be brief."), of(tool=replace(LOOK, description="Look."))]
    assert len({of(), *others}) == 4
    assert cache_key("ab", "c") != cache_key("a", "bc"), "where one ends and the next begins counts, too"


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30), st.integers(1, 999))
def test_a_key_is_short_and_tells_nothing(tenant: str, instructions: str, session: str, shards: int) -> None:
    key = cache_key(tenant, instructions, session=session, shards=shards)
    assert re.fullmatch(r"pkv-[0-9a-f]{24}-\d{1,3}", key) and len(key) <= 40
    assert int(key.rpartition("-")[2]) < shards


def test_sessions_are_spread_evenly_and_stay_where_they_are() -> None:
    keys = [cache_key("acme", "Be kind.", session=f"user-{number}", shards=8) for number in range(800)]
    assert keys == [cache_key("acme", "Be kind.", session=f"user-{number}", shards=8) for number in range(800)]
    assert len(set(keys)) == 8 and max(Counter(keys).values()) < 150


def test_how_many_shards() -> None:
    assert [shards_for(rate, OPENAI) for rate in (0, 1, 15, 15.1, 150)] == [1, 1, 1, 2, 10]
    assert shards_for(10_000, ANTHROPIC) == 1
    with pytest.raises(ProfileError, match="shards is 0"):
        cache_key("acme", "", shards=0)

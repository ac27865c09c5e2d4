"""The integration benchmark: nothing breaks unreported, on real payloads, and the measure sees what it should."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks._frame import read_json
from benchmarks._integration import FORK_FROM, Capture, make_trip
from benchmarks._integration_payload import breaks, cache_request_of
from benchmarks._integration_run import broken, integration, measure
from benchmarks._placements import Encoder


def chat(*texts: str, head: str = "head") -> dict[str, Any]:
    return {"model": "m", "system": head, "messages": [{"role": "user", "content": text} for text in texts]}


def test_the_conversation_is_what_it_says() -> None:
    trip = make_trip()
    assert trip == make_trip()
    steps = [step for turn in trip.turns for step in turn.steps]
    by_tools = sum(call.name == "set_status" for step in steps for call in step)
    by_application = sum(bool(turn.patch) for turn in trip.turns)
    assert (len(trip.turns), by_application, by_tools) == (30, 6, 6)
    assert sum(len(step) > 1 for step in steps) == 3
    assert sum(turn.fails for turn in trip.turns) == 1
    ids = [call.id for step in steps for call in step]
    assert len(set(ids)) == len(ids)


def test_a_break_is_seen_on_its_branch() -> None:
    main = [Capture(chat("a"), FORK_FROM), Capture(chat("a", "b"), 9), Capture(chat("a", "b", "c"), 13)]
    side = [Capture(chat("a", "x"), 9, forked=True), Capture(chat("a", "x", "y"), 10, forked=True)]
    assert broken([*main[:2], *side, main[2]]) == []
    from_the_wrong_place = Capture(chat("a", "z", "y"), 10, forked=True)
    assert broken([*main[:2], side[0], from_the_wrong_place, main[2]]) == [from_the_wrong_place]
    moved = Capture(chat("a", "b", "c", head="another"), 13)
    assert broken([*main[:2], moved]) == [moved]


def test_markers_are_no_part_of_what_is_read() -> None:
    marked: dict[str, Any] = {
        "system": [{"type": "text", "text": "head", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}
        ],
        "model": "m",
    }
    assert not breaks(marked, chat("a", "b"))
    request = cache_request_of(marked, Encoder(), 0.0)
    assert request.breakpoints == request.blocks and len(request.blocks) == 2
    assert request.ttls == {request.blocks[0]: 3600}
    point = {"cachePoint": {"type": "default"}}
    bedrock = {"system": [{"text": "head"}, point], "messages": [{"role": "user", "content": [{"text": "a"}, point]}]}
    assert cache_request_of(bedrock, Encoder(), 0.0).blocks == cache_request_of(bedrock, Encoder(), 0.0).breakpoints


SLOWER = [
    pytest.param("langchain", model, marks=pytest.mark.slow) for model in ("anthropic opus 5", "anthropic sonnet 5")
]
MODELS = [
    ("langchain", "openai chat gpt-5.1"),
    *SLOWER,
    ("llama_index", "openai chat gpt-4.1"),
    ("llama_index", "anthropic opus 4.8"),
]


@pytest.mark.parametrize(("framework", "model"), MODELS)
def test_nothing_breaks_unreported(framework: Any, model: str) -> None:
    """In one process; the resume is a new connection to the checkpointer's file, or a new context of `to_dict`."""
    own, late, early = measure(framework, only=[model], resume="here")
    assert (own.arm, own.requests, own.breaks, own.unreported) == ("ours", 42, 0, 0)
    assert late.breaks == early.breaks == 12
    assert own.cached_share > 0.95 > late.cached_share


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["langchain", "llama_index"])
def test_two_processes(framework: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert integration(framework, is_quick=True, file=tmp_path / "rows.json") == 0
    rows: Any = read_json(tmp_path / "rows.json")["rows"]
    ours = [row for row in rows if row["arm"] == "ours"]
    assert len(ours) >= 3 and all(row["unreported"] == 0 and row["requests"] == 42 for row in ours)
    assert "target met" in capsys.readouterr().out

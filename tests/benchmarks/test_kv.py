"""The benchmark of KV operations: every operation has its row, and the turn is of the size that it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._first_token import Row
from benchmarks._frame import BenchmarkError, read_json
from benchmarks._kv_floor import Bare
from benchmarks._kv_turn import make_turn
from benchmarks._toy import toy_chat_model
from benchmarks.kv import main, verdicts
from pkv_agents.kv import HFModel, Slab
from pkv_agents.local import LocalModel

OPERATIONS = {
    "full",
    "floor",
    "erratum",
    "field_erratum",
    "in_place",
    "splice from memory",
    "splice from disk, trusted",
    "splice from disk, verified",
    "decode",
    "decode floor",
}


def test_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--json", str(tmp_path / "kv.json")]) == 0
    data = read_json(tmp_path / "kv.json")
    rows = data["rows"]
    assert isinstance(rows, list)
    assert set(rows[0]) == {"operation", "tokens", "ttft_s", "speedup_to_full", "ratio_to_floor"}
    by_name = {row["operation"]: row for row in rows}
    assert set(by_name) == OPERATIONS and len(rows) == len(OPERATIONS)
    assert by_name["full"]["speedup_to_full"] == 1
    assert by_name["floor"]["ratio_to_floor"] == by_name["decode floor"]["ratio_to_floor"] == 1
    assert "splice from disk" in capsys.readouterr().out


def test_a_turn_has_the_tokens_that_were_asked_for_and_finds_the_rest_in_the_cache() -> None:
    engine = LocalModel(*toy_chat_model())
    turn = make_turn(engine, 1200, 400)
    for number in (1, 2, 3):
        asked = turn.asked(number)
        _, reply = asked.ask()
        # A filler is four bytes of the toy: so near it comes.
        assert 0 <= 1200 - reply.prompt_tokens < 8
        assert 0 <= 400 - (reply.prompt_tokens - reply.cached_tokens) < 4
    with pytest.raises(BenchmarkError, match="too short: the least has"):
        make_turn(engine, 100, 40)


def test_the_floor_computes_what_the_engine_does() -> None:
    model, _ = toy_chat_model()
    bare, ours = Bare(model, 64), HFModel(model)
    slab = Slab(ours.facts.shape, capacity=64, limit=64)
    ids = [3 + index * 7 % 200 for index in range(40)]
    bare.forward(ids[:30])
    ours.forward(slab, ids[:30])
    assert bare.forward(ids[30:]).allclose(ours.forward(slab, ids[30:]), atol=1e-4)
    bare.keep(30)
    slab.crop(30)
    assert bare.forward(ids[5:9]).allclose(ours.forward(slab, ids[5:9]), atol=1e-4)


def test_targets_are_judged_at_their_length_only() -> None:
    rows = [Row("erratum", 4096, 0.3, 19.9, 1.1), Row("decode", 4096, 0.1, 0, 1.2), Row("erratum", 512, 1, 1, 9)]
    assert [line.rpartition(": ")[2] for line in verdicts(rows)] == ["missed", "met", "missed"]
    assert verdicts([Row("erratum", 512, 1, 1, 9)]) == []

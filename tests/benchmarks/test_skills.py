"""The skills benchmark: the conversation is what it says, and its claims hold for each provider."""

from __future__ import annotations

from pathlib import Path

import pytest

import benchmarks.skills as benchmark
from benchmarks._frame import BenchmarkError, read_json
from benchmarks._placements import Encoder
from benchmarks._skills import ARMS, LATE, LOADED, REPLACED, RETIRED, SWITCHED, Sent, turns
from benchmarks.wire import profiles
from pkv_agents import Profile

CHANGES = sum(map(len, (LOADED, RETIRED, REPLACED, SWITCHED, LATE)))


def test_the_conversation_is_what_it_says() -> None:
    made = turns()
    assert len(made) == 40 and made is turns()
    assert [len(changes) for changes in (LOADED, RETIRED, REPLACED, SWITCHED, LATE)] == [6, 3, 2, 4, 2]
    assert made[-1].active == ("skill-2", "skill-5", "skill-6") and made[-1].off == ()
    assert len(made[-1].tools) - len(made[0].tools) == 2
    assert sum(one.registry.skills != two.registry.skills for one, two in zip(made, made[1:], strict=False)) == 2
    assert all(two.history[: len(one.history)] == one.history for one, two in zip(made, made[1:], strict=False))


@pytest.mark.parametrize("named", ["openai gpt-5.1", "anthropic opus 5", "vllm"])
def test_ours_breaks_only_where_it_says_so_and_costs_less(named: str) -> None:
    profile, encode = profiles()[named], Encoder()
    rows = {arm: benchmark.row_of(named, profile, arm, encode) for arm in ARMS}
    own = rows["ours"]
    assert own.breaks == len(own.reported) <= 1 and set(own.reported) <= {"errata_limit", "payback"}
    assert rows["rebuilt"].breaks == CHANGES and rows["everything"].breaks == len(REPLACED) + len(LATE)
    assert own.cost < rows["everything"].cost < rows["rebuilt"].cost
    assert own.cached_share > 0.94 > 0.9 > rows["everything"].cached_share > rows["rebuilt"].cached_share


def test_a_break_that_nobody_reported_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rebuilt = ARMS["rebuilt"]
    monkeypatch.setitem(ARMS, "ours", rebuilt)
    with pytest.raises(BenchmarkError, match="broke is True"):
        benchmark.row_of("vllm", profiles()["vllm"], "ours", Encoder())
    one: Sent = next(iter(rebuilt(Profile("one"), Encoder())))
    monkeypatch.setitem(ARMS, "ours", lambda profile, encode: iter([Sent(one.request, ("tool_late",))]))
    with pytest.raises(BenchmarkError, match="broke is False"):
        benchmark.row_of("vllm", profiles()["vllm"], "ours", Encoder())


def test_the_program_prints_a_table_and_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "skills.json"
    assert benchmark.main(["--quick", "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].split()[:3] == ["provider", "arm", "input"] and "errata_limit" in printed
    data = read_json(file)
    assert data["benchmark"] == "skills" and isinstance(data["rows"], list) and len(data["rows"]) == 6

"""Compiled skills on a local model: every part gives its rows, and a part that is not run is kept."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from benchmarks._model import Loaded
from benchmarks._skills_local import SKILL, Place, draw
from benchmarks._skills_local_quality import EXACT_ARM, quality_rows
from benchmarks.skills_local import PLACES, TIMED, main
from pkv_agents.local import LocalModel
from tests.local.tiny import tiny_llama, tiny_tokenizer

TOKENS = 300  # a short policy


@cache
def loaded() -> Loaded:
    model = tiny_llama(max_position_embeddings=16_384)
    return Loaded(LocalModel(model, tiny_tokenizer()), {"fingerprint": "tiny"}, model)


def test_a_skill_is_as_long_as_it_is_asked_for() -> None:
    engine = loaded().engine
    for tokens in (1, 2_900):
        (asked,) = draw(1, tokens, engine, "head")
        size = len(engine.template.encode(asked.registry[SKILL].body))
        assert size >= tokens and (tokens == 1 or size < tokens + 200)
        assert ("## Goods" in asked.text) is (tokens > 1)


@pytest.mark.parametrize("place", PLACES)
def test_every_arm_gives_a_row_and_the_exact_one_diverges_by_nothing(place: Place) -> None:
    engine = loaded().engine
    (asked,) = draw(1, TOKENS, engine, place)
    rows = {row.arm: row for row in quality_rows(engine, asked, reverse=True)}
    assert rows[EXACT_ARM].kl_tool < 1e-6 and rows[EXACT_ARM].agrees
    assert {arm for arm in rows if arm.startswith("control")} == {
        "control: no rotation",
        "control: tokens reversed",
        "control: skill absent",
    }
    assert all(row.kl_tool >= 0 and row.tokens >= TOKENS for row in rows.values())


@pytest.mark.slow
def test_parts_are_written_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def loading(*_: object, **__: object) -> Loaded:
        return loaded()

    monkeypatch.setattr("benchmarks.skills_local.load_model", loading)
    file = tmp_path / "rows.json"
    options = ["--quick", "--tokens", str(10 * TOKENS), "--json", str(file)]
    assert main([*options, "--parts", "quality", "--worlds", "1"]) == 0
    assert main([*options, "--parts", "time", "--repeats", "1"]) == 0
    parts = json.loads(file.read_text())["parts"]
    assert main([*options, "--parts", "quality", "--worlds", "1"]) == 0  # is there already
    assert list(parts) == ["quality", "time"]
    assert {row["place"] for row in parts["quality"]["rows"]} == set(PLACES)
    rows = {(row["place"], row["arm"]): row for row in parts["time"]["rows"]}
    assert rows["head", "prefill"]["grade"] == "exact" and rows["head", "memory"]["grade"] == "composed"
    assert rows["head", "for this head, disk, trusted"]["grade"] == "exact"
    assert rows["same turn", "disk, trusted"]["grade"] == "composed"
    for place in TIMED:
        assert rows[place, "disk, verified"]["computed"] < rows[place, "prefill"]["computed"] / 1.2
    sizes = parts["time"]["sizes"]
    assert all(size["disk_bytes"] > size["segment_bytes"] > 0 < size["slab_bytes"] for size in sizes)
    shown = capsys.readouterr().out
    assert "control: no rotation" in shown and "disk, verified" in shown

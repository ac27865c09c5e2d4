"""The bootstrap against cases that are known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks._stats import boot


def test_a_fair_coin_has_the_width_that_theory_gives_it() -> None:
    found = boot([0, 1] * 200, rounds=5_000)
    half = 1.96 * math.sqrt(0.25 / 400)
    assert found.mean == 0.5
    assert found.n == 400
    assert found.low == pytest.approx(0.5 - half, abs=0.006)
    assert found.high == pytest.approx(0.5 + half, abs=0.006)


def test_a_mean_of_numbers() -> None:
    values = [float(value) for value in range(1, 101)]
    found = boot(values, rounds=5_000)
    half = 1.96 * math.sqrt((100**2 - 1) / 12 / 100)
    assert found.mean == 50.5
    assert found.low == pytest.approx(50.5 - half, abs=0.5)
    assert found.high == pytest.approx(50.5 + half, abs=0.5)


def test_equal_values_have_no_width_and_nothing_has_no_mean() -> None:
    assert str(boot([True] * 10)) == "1.00 1.00-1.00"
    empty = boot([])
    assert (empty.mean, empty.n, str(empty)) == (None, 0, "-")


def test_a_wider_level_is_wider() -> None:
    values = [0, 0, 0, 1, 1, 1, 1, 1]
    narrow, wide = boot(values, level=0.5), boot(values, level=0.99)
    assert wide.low is not None and narrow.low is not None and wide.low < narrow.low
    assert wide.high is not None and narrow.high is not None and wide.high > narrow.high


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 5))
def test_it_holds_its_mean_and_repeats_itself(values: list[bool], seed: int) -> None:
    found = boot(values, seed=seed)
    assert found == boot(values, seed=seed)
    assert found.low is not None and found.mean is not None and found.high is not None
    assert 0 <= found.low <= found.mean <= found.high <= 1

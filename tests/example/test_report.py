"""The report: a page that needs nothing else, data beside it, both whole or absent."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from examples.support_agent.arms import ARMS
from examples.support_agent.console import changes, show
from examples.support_agent.plots import cached_plot, ttft_plot
from examples.support_agent.report import render_html, write_report, write_whole
from examples.support_agent.results import Decision, RunResult, totals
from examples.support_agent.runner import run
from pkv_agents import StoreError
from tests.example.readers import PerfectReader, choice_of

HOSTILE = "<script src=https://evil.example/x.js>alert(1)</script> \" onload='x'"


@pytest.fixture(scope="module")
def result() -> RunResult:
    return run(choice_of(PerfectReader, HOSTILE), turns=3)


class Page(HTMLParser):
    """Collects tags, attributes and text, and holds that tags are balanced."""

    VOID = ("meta", "br", "use")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_loads_nothing_and_runs_nothing(result: RunResult) -> None:
    page = Page(render_html(result))
    assert not {"script", "link", "img", "iframe", "object", "embed", "form"} & set(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        if name in {"href", "xlink:href", "src", "action"}:
            assert value.startswith("#"), value
        assert "url(http" not in value and "@import" not in value
    assert "@import" not in page.text and "url(http" not in page.text


def test_values_are_shown_as_they_are(result: RunResult) -> None:
    row = replace(
        result.rows[0], decision=Decision("<b>x</b>", {"order_id": "<i>&amp;</i>"}), request=HOSTILE, reason=HOSTILE
    )
    page = Page(render_html(replace(result, rows=(row, *result.rows[1:]), notices=(HOSTILE,))))
    assert page.text.count(HOSTILE) == 4
    assert "<b>x</b>(<i>&amp;</i>)" in page.text
    assert not {"b", "i", "script"} & set(page.tags)


def test_the_plots_follow_the_pages_colours(result: RunResult) -> None:
    page = Page(render_html(result))
    assert page.tags.count("svg") == 2
    for arm in ARMS:
        assert f"var(--{arm.replace('_', '-')})" in str(cached_plot(result))
        assert arm in page.text
    assert "font-family" not in str(ttft_plot(result))
    assert "svg" not in Page(render_html(result, plots=False)).tags
    assert cached_plot(result) == cached_plot(result)


def test_what_was_not_reported_is_called_so() -> None:
    quiet = run(choice_of(lambda: PerfectReader(reports_cache=False)), arms=["ours"], turns=2)
    assert cached_plot(quiet) is None
    assert ttft_plot(quiet) is not None
    assert "not reported" in Page(render_html(quiet)).text
    shown = io.StringIO()
    show(Console(width=140, file=shown), quiet)
    assert "not reported" in shown.getvalue()


def test_the_data(result: RunResult, tmp_path: Path) -> None:
    write_report(result, html=tmp_path / "deep" / "report.html", json_file=tmp_path / "data.json")
    data = json.loads((tmp_path / "data.json").read_text())
    assert (tmp_path / "deep" / "report.html").read_text().startswith("<!doctype html>")
    assert set(data) >= {"model", "head_tokens", "versions", "turns", "totals", "arms"}
    assert set(data["totals"]) == set(ARMS)
    wanted = {"cached_share_after_first", "ttft_p50_s", "agreement", "policy_correct", "appended_tokens"}
    assert all(set(sums) >= wanted for sums in data["totals"].values())
    assert len(data["turns"]) == 3 * len(ARMS)
    first = data["turns"][0]
    assert (first["turn"], first["arm"]) == (1, "rewrite")
    assert first["tool"] == "change_address"
    assert first["reason"] == 'orders[M802].status: "processing"'
    assert first["arguments"] == first["expected"]["arguments"] == {"order_id": "M802", "town": "Lisbon"}
    assert first["policy_correct"] is True and first["agreement"] is True
    assert first["prompt_tokens"] == first["new_tokens"] + first["cached_tokens"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.json", "deep"]


def test_the_terminal_shows_every_turn_and_the_totals(result: RunResult, capsys: pytest.CaptureFixture[str]) -> None:
    show(Console(width=150), result)
    shown = capsys.readouterr().out
    for text in ("change_address(M802, Lisbon)", 'orders[M802].status: "packed"', "changed: customer.tier = gold"):
        assert text in shown
    assert shown.count("ours") >= 4
    assert "decided as rewrite_late" in shown
    assert "first token" in shown or "whole call" in shown


def test_changes_say_who_made_them(result: RunResult) -> None:
    rows = [row for row in result.rows if row.turn == 3]
    assert changes(rows).startswith("customer.tier = gold; orders[M802].status = on hold (by a tool")


def test_a_file_is_whole_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_whole(target, "one")
    with pytest.raises(UnicodeEncodeError):
        write_whole(target, "two\ud800")
    assert target.read_text() == "one"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    with pytest.raises(StoreError, match="cannot write"):
        write_whole(target / "below", "x")


def test_totals_of_nothing() -> None:
    sums = totals([])
    assert sums.cached_share_after_first is None and sums.ttft_p50_s is None and sums.agreement is None

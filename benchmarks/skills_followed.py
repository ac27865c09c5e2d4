"""After a skill was replaced in mid-conversation, does a model decide by the new version and not by the old one?

    python -m benchmarks.skills_followed [--quick] [--json FILE]

Hypothesis: a new version that is told behind the history (whole, or by the lines that changed, as the registry's patch
comes out) moves the decision as a head does that holds only the new version. That head is the oracle (`clean`). The
first head for ever (`stale`) is the control: it shows that the question hangs on the change. What the version that is
no longer in force would want is known for each question, so "follows the old one" is counted, and not inferred.

Where something was told by the lines that changed, the same is also asked with every version told whole
(`ErrataStyle(edits=False)`), for the same question.

Agreement where the clean head is right, near 1, says that versions told late can be relied on with this model. Many
decisions by the old version would say that they must not be told so.

Rules, values, names of people, towns and skills are held out from the adapter's training. In half of the seeds the
question's topic was asked about and answered before, by the old version: that answer stands in each arm's history.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from benchmarks._arms import Decision, decide, head_tokens, history_of, openai_tools, requests_of, through_session
from benchmarks._frame import (
    Pace,
    count,
    options_parser,
    run_benchmark,
    say,
    table,
    tenth,
    this_machine,
    write_json,
)
from benchmarks._model import load_model
from benchmarks._skill_cases import KINDS, SkillCase, SkillKind, draw_skill_case
from benchmarks._stats import Interval, boot
from examples.support_agent.models import SKILLS_ADAPTER
from pkv_agents import DEFAULT_STYLE, Message
from pkv_agents.local import LocalModel

FORMAT = 3
FIRST_SEED = 7_000
"""Smaller ones were looked at while the adapter was made."""
WHOLE = replace(DEFAULT_STYLE, edits=False)
TARGET = 0.85
"""Share of ours that calls the clean head's tool, where that is right."""

Told = Literal["whole", "by lines"]


@dataclass(frozen=True, slots=True)
class Row:
    """One question and what was decided in each arm.

    Attributes:
        seed: Its seed.
        kind: What became of the rule that is asked about.
        asked_before: Its topic was answered before, by the version of that time.
        told: How the (last) change was told.
        case: Hash of what was asked.
        turns: Answered turns before the question.
        head_tokens: Tokens of the first head.
        tool: The right tool.
        other: The tool that a version wants that is not in force, where there is one that wants another.
        clean: Decision with a head that holds only what is in force.
        ours: Decision with the first head and errata.
        stale: Decision with the first head and nothing told.
        whole: Decision with the first head and errata that tell each version whole; None where ours does so.
        agree: Whether ours equals clean.
        follows_other: Whether ours is what the version wants that is not in force.
        seconds: All three.
    """

    seed: int
    kind: SkillKind
    asked_before: bool
    told: Told
    case: str
    turns: int
    head_tokens: int
    tool: str
    other: str | None
    clean: Decision
    ours: Decision
    stale: Decision
    whole: Decision | None
    agree: bool
    follows_other: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Line:
    """What one group of rows says: shares with their intervals.

    Attributes:
        cell: Its name.
        n: Its rows.
        clean: Right decisions with the clean head.
        ours: The same with errata.
        stale: The same with nothing told.
        follows_other: Among the rows that have such a version: ours decided by the one that is not in force.
        tool_where_right: Among the rows in which the clean head is right: ours called the same tool, by the same rule.
        agreement_where_right: Among them: ours decided as that did, arguments and all.
        whole_where_right: Among them: called the same tool with each version told whole.
    """

    cell: str
    n: int
    clean: Interval
    ours: Interval
    stale: Interval
    follows_other: Interval
    tool_where_right: Interval
    agreement_where_right: Interval
    whole_where_right: Interval


def run_case(engine: LocalModel, case: SkillCase) -> Row:
    """Ask the question in each arm, beginning with an empty cache."""
    started = time.perf_counter()
    engine.clear_cache()
    asked, tools, answer = requests_of(case, engine.profile), openai_tools(), case.answers()[-1]
    made = {arm: decide(engine, asked[arm], tools, answer) for arm in ("ours", "stale", "rewritten")}
    ours = made["ours"]
    whole = through_session(case, history_of(case), engine.profile, WHOLE)
    return Row(
        seed=case.seed,
        kind=case.kind,
        asked_before=case.asked_before,
        told=how_told(asked["ours"]),
        case=case.digest(),
        turns=len(case.world.requests) - 1,
        head_tokens=head_tokens(engine, asked["ours"], tools),
        tool=answer[0],
        other=case.other[0] if case.other else None,
        clean=made["rewritten"],
        ours=ours,
        stale=made["stale"],
        whole=decide(engine, whole, tools, answer) if whole != asked["ours"] else None,
        agree=ours.same_as(made["rewritten"]),
        follows_other=(ours.tool, dict(ours.arguments)) == case.other,
        seconds=round(time.perf_counter() - started, 3),
    )


def how_told(messages: Sequence[Message]) -> Told:
    """How the last change of a skill was told in a request."""
    lines = [line for message in messages[1:] for line in message.text.split("\n") if line.startswith("skills.active[")]
    return "whole" if lines[-1].partition("]: ")[2].startswith('"') else "by lines"


def summarise(rows: Sequence[Row]) -> list[Line]:
    """The lines of the table; cells without rows are left out."""
    return [
        Line(
            cell=name,
            n=len(chosen),
            clean=boot([row.clean.right for row in chosen]),
            ours=boot([row.ours.right for row in chosen]),
            stale=boot([row.stale.right for row in chosen]),
            follows_other=boot([row.follows_other for row in chosen if row.other is not None]),
            tool_where_right=boot([row.ours.tool == row.clean.tool for row in chosen if row.clean.right]),
            agreement_where_right=boot([row.agree for row in chosen if row.clean.right]),
            whole_where_right=boot(
                [(row.whole or row.ours).tool == row.clean.tool for row in chosen if row.clean.right]
            ),
        )
        for name, belongs in _groups()
        if (chosen := [row for row in rows if belongs(row)])
    ]


def summary_text(rows: Sequence[Row]) -> str:
    """The table, with what is needed to read it."""
    headers = (
        "cell",
        "n",
        "clean",
        "ours",
        "stale",
        "ours by another version",
        "same tool*",
        "same call*",
        "told whole*",
    )
    lines = [
        (
            one.cell,
            one.n,
            one.clean,
            one.ours,
            one.stale,
            one.follows_other,
            one.tool_where_right,
            one.agreement_where_right,
            one.whole_where_right,
        )
        for one in summarise(rows)
    ]
    notes = (
        "Shares that are right, with bootstrap 95 % intervals. * as the clean head, where that is right; "
        f"target for the tool: {TARGET}. `told whole`: the same tool, had every version been told whole.",
        "Stale is right by design in `restored` and `beside`; in `loaded` it has no rule to go by.",
    )
    return "\n".join([table(headers, lines), "", *notes])


def _groups() -> Iterator[tuple[str, Callable[[Row], bool]]]:
    for kind in KINDS:
        yield kind, lambda row, k=kind: row.kind == k
    yield "replaced, told whole", lambda row: row.kind in KINDS[:4] and row.told == "whole"
    yield "replaced, told by lines", lambda row: row.kind in KINDS[:4] and row.told == "by lines"
    yield "replaced, not asked before", lambda row: row.kind in KINDS[:4] and not row.asked_before
    yield "replaced, asked before", lambda row: row.kind in KINDS[:4] and row.asked_before
    yield "replaced, all", lambda row: row.kind in KINDS[:4]
    yield "all", lambda row: True


def row_line(row: Row) -> str:
    """A row in a line."""
    marks = "  ".join(
        f"{arm} {'right' if decision.right else 'WRONG'}"
        for arm, decision in (("clean", row.clean), ("ours", row.ours), ("stale", row.stale))
    )
    ending = "agree " if row.agree else "BY THE OTHER VERSION" if row.follows_other else "DIFFER"
    return f"{row.seed:>4}  {f'{row.kind}, {row.told}':<22}  {marks}  {ending} {row.seconds:5.1f} s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit status."""
    options = _parse(arguments)
    loaded = load_model(options.model, options.adapter or SKILLS_ADAPTER, threads=options.threads)
    machine = this_machine(dtype=loaded.identity["dtype"])
    say(f"skills followed: {options.seeds} seeds from {options.first}; {machine}")
    rows: list[Row] = []
    pace = Pace(options.seeds)
    for seed in range(options.first, options.first + options.seeds):
        rows.append(run_case(loaded.engine, draw_skill_case(seed)))
        say(f"{row_line(rows[-1])}   {len(rows)}/{options.seeds}, {pace.advance(1)}")
        if options.json is not None:
            write_json(options.json, result_data(rows, loaded.identity, asdict(machine), of=options.seeds))
    say(f"\n{summary_text(rows)}")
    return 0


def result_data(
    rows: Sequence[Row], identity: Mapping[str, str], machine: Mapping[str, object], *, of: int
) -> dict[str, object]:
    """What the file holds."""
    return {
        "benchmark": "skills followed",
        "format": FORMAT,
        "finished": len(rows) == of,
        "identity": dict(identity),
        "machine": dict(machine),
        "summary": [asdict(line) for line in summarise(rows)],
        "rows": [asdict(row) for row in rows],
    }


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = options_parser(__doc__ or "")
    parser.add_argument("--seeds", type=count, default=42, metavar="N", help="how many seeds (default 42)")
    parser.add_argument("--first", type=count, default=FIRST_SEED, metavar="N", help="the first of them")
    parser.add_argument("--model", type=Path, metavar="DIR", help="a model's folder (default: the embedded model)")
    parser.add_argument(
        "--adapter", type=Path, metavar="DIR", help="an adapter's folder, or none (default: the shop's for skills)"
    )
    options = parser.parse_args(arguments)
    if options.quick:
        options.seeds = tenth(options.seeds)
    return options


if __name__ == "__main__":
    sys.exit(run_benchmark(main))

"""The support agent, four ways: `python -m examples.support_agent --help`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

ARM_NAMES = ("rewrite", "rewrite_late", "ours", "stale")
FRAMEWORKS = ("langchain", "llama_index")
TURN_COUNT = 12

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def main(
    model: Annotated[
        str, typer.Option(help="embedded, a path or hub id, http://host/v1, openai:NAME, anthropic:NAME.")
    ] = "embedded",
    turns: Annotated[int, typer.Option(help=f"How many turns to play, 1 to {TURN_COUNT}.")] = TURN_COUNT,
    arms: Annotated[str, typer.Option(help=f"Which arms, of {','.join(ARM_NAMES)}.")] = ",".join(ARM_NAMES),
    html: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("build/support_agent.html"),
    json: Annotated[Path | None, typer.Option(help="Where the data goes; beside the report by default.")] = None,
    adapter: Annotated[
        str | None, typer.Option(help="A LoRA adapter's folder, or 'none'; the shop's for the embedded model.")
    ] = None,
    plots: Annotated[bool, typer.Option(help="Draw plots into the report.")] = True,
    framework: Annotated[str, typer.Option(help=f"Whose agent plays: {' or '.join(FRAMEWORKS)}.")] = FRAMEWORKS[0],
    skills: Annotated[bool, typer.Option("--skills", help="Put the rules into skills: loaded late, replaced.")] = False,
) -> None:
    """Play a scripted conversation with a support agent, four ways, and report what was cached and decided.

    Exit codes: 0 done, 1 the model or a file failed, 2 a wrong option, 130 interrupted (no report is written then).
    """
    errors = Console(stderr=True)
    chosen = [name.strip() for name in arms.split(",") if name.strip()]
    if unknown := [name for name in chosen if name not in ARM_NAMES]:
        _fail(errors, f"unknown arm {unknown[0]!r}; there are {', '.join(ARM_NAMES)}", code=2)
    if not chosen or len(set(chosen)) < len(chosen):
        _fail(errors, f"name each arm once, of {', '.join(ARM_NAMES)}", code=2)
    if not 1 <= turns <= TURN_COUNT:
        _fail(errors, f"turns is {turns}; the script has 1 to {TURN_COUNT}", code=2)
    if framework not in FRAMEWORKS:
        _fail(errors, f"unknown framework {framework!r}; there are {', '.join(FRAMEWORKS)}", code=2)
    try:
        files = html, json or html.with_suffix(".json")
        _play(errors, framework, model, adapter, chosen, turns, files, plots=plots, skills=skills)
    except KeyboardInterrupt:
        _fail(errors, "interrupted; no report was written", code=130)


def _play(
    errors: Console,
    framework: str,
    model: str,
    adapter: str | None,
    arms: list[str],
    turns: int,
    files: tuple[Path, Path],
    *,
    plots: bool,
    skills: bool,
) -> None:
    # Imported here: `--help` and a wrong option answer at once, without torch.
    from pkv_agents import PkvError

    from .arms import ARMS
    from .console import live, show
    from .embedded import ensure_model, progress_bar
    from .models import EMBEDDED, SKILLS_ADAPTER, choose_model
    from .report import write_report
    from .script import script_of

    html, json_file = files
    run, models = _parts_of(framework)
    try:
        if model == EMBEDDED:
            with progress_bar(errors) as progress:
                ensure_model(progress)
            adapter = adapter or (str(SKILLS_ADAPTER) if skills else None)
        with errors.status("loading the model"):
            choice = choose_model(model, adapter=adapter, models=models)
        with live(errors, turns) as on_turn:
            script = script_of("skills" if skills else "policy")
            played = [arm for arm in ARMS if arm in arms]
            result = run(choice, arms=played, turns=turns, on_turn=on_turn, script=script)
        write_report(result, html=html, json_file=json_file, plots=plots)
    except PkvError as error:
        _fail(errors, str(error), code=1)
    output = Console()
    show(output, result)
    output.print(f"report: {html}\ndata:   {json_file}", highlight=False, soft_wrap=True)


def _parts_of(framework: str) -> tuple[Any, Any]:
    """What plays with a framework's agent, and what makes the framework's models."""
    if framework == "llama_index":
        from examples.support_agent_llamaindex import run

        from .llama_index_models import LlamaIndexModels

        return run, LlamaIndexModels()
    from .langchain_models import LangChainModels
    from .runner import run

    return run, LangChainModels()


def _fail(errors: Console, message: str, *, code: int) -> NoReturn:
    line = " ".join(message.split())
    errors.print(Text.assemble(("error: ", "red"), line), soft_wrap=True)
    raise typer.Exit(code)


if __name__ == "__main__":
    sys.exit(app())

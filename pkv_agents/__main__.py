"""The command line: `python -m pkv_agents COMMAND`.

Each command is a module `pkv_agents/_cli_NAME.py` with

    SUMMARY: str                                       one line for the list of commands
    def configure(parser: ArgumentParser) -> None      adds its options (and its own subcommands, if any)
    def run(options: Namespace) -> int                 does it; returns the exit code

Nothing has to be registered. What a command needs beside the base package it imports inside `run`, so that the list of
commands works without it. An error of ours, or a missing extra, is one line on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from typing import Protocol, cast

import pkv_agents
from pkv_agents.errors import PkvError

_PREFIX = "_cli_"


class Command(Protocol):
    """What a module of a command holds."""

    SUMMARY: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's options."""
        ...

    def run(self, options: argparse.Namespace) -> int:
        """Does it; returns the exit code."""
        ...


def commands() -> Iterator[tuple[str, Command]]:
    """Every command of the package, by name."""
    for module in sorted(pkgutil.iter_modules(pkv_agents.__path__), key=lambda module: module.name):
        if module.name.startswith(_PREFIX):
            command = importlib.import_module(f"pkv_agents.{module.name}")
            yield module.name.removeprefix(_PREFIX), cast("Command", command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: Of the command line; None for the process's own.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser("python -m pkv_agents", description="Tools for agents with a warm prompt cache.")
    chosen = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in commands():
        part = chosen.add_parser(name, help=command.SUMMARY, description=command.SUMMARY)
        command.configure(part)
        part.set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except (PkvError, ModuleNotFoundError) as error:
        if not isinstance(error, PkvError) and (error.name or "").startswith("pkv_agents"):
            raise  # a fault of ours, not an extra that is missing
        sys.stderr.write(f"pkv-agents: {error}\n")
        return 2
    except BrokenPipeError:  # the reader of a pipe (`head`) has seen enough
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())

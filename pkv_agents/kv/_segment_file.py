"""One compiled segment as one file: its key, its header, its checksum, written atomically, mapped when read."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType] -- a bare PathLike upstream

from pkv_agents.errors import SegmentError
from pkv_agents.kv.engine import SegmentModel
from pkv_agents.kv.segment import KVSegment
from pkv_agents.kv.splice import compiled_origin

FORMAT = 1
"""Version of the file format; part of the key, so a newer library does not see older files."""

_HEADER = "pkv_agents"

Key = dict[str, object]
"""Everything that decides what a compiled segment holds, as plain data."""


class _File(Protocol):
    def metadata(self) -> dict[str, str] | None: ...
    def get_tensor(self, name: str) -> torch.Tensor: ...


def key_of(model: SegmentModel, ids: Sequence[int], preamble: Sequence[int]) -> Key:
    """What decides the content of these tokens' segment."""
    return {
        "format": FORMAT,
        "model": model.fingerprint,
        "dtype": str(model.dtype),
        "rotary": model.rule.parameters,
        "ids": [int(token) for token in ids],
        "preamble": [int(token) for token in preamble],
    }


def name_of(key: Key) -> str:
    """The name of the file of a key."""
    return f"{hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()}.safetensors"


def checksum_of(key: Key, segment: KVSegment) -> str:
    """A hash over key, token ids, positions, keys and values."""
    return hashlib.sha256(json.dumps([key, segment.checksum()], sort_keys=True).encode()).hexdigest()


def read_segment(path: Path, key: Key, model: SegmentModel, preamble: Sequence[int]) -> tuple[KVSegment, str]:
    """Maps a file, without touching its tensors.

    Returns:
        The segment, and the checksum that its header promises.

    Raises:
        SegmentError: If it is not what the key asks for.
        KeyError, TypeError, ValueError, SafetensorError: If it is no file of ours at all.
    """
    with cast("AbstractContextManager[_File]", safe_open(path, framework="pt")) as file:
        header = json.loads((file.metadata() or {})[_HEADER])
        if header["key"] != key:
            raise SegmentError("it is another segment's file")
        layers = range(len(model.rule.kinds))
        ids, written = file.get_tensor("ids").numpy(), file.get_tensor("written").numpy()
        if ids.tolist() != key["ids"]:
            raise SegmentError("its token ids are not those of its header")
        segment = KVSegment(
            ids=ids,
            written=written,
            start=int(written[0]),
            keys=tuple(file.get_tensor(f"keys.{index}") for index in layers),
            values=tuple(file.get_tensor(f"values.{index}") for index in layers),
            fingerprint=model.fingerprint,
            origin=compiled_origin(ids.tolist(), preamble),
        )
    return segment, str(header["checksum"])


def model_of(path: Path) -> str | None:
    """The fingerprint of the model whose segment a file holds, as its header says; None for a file that has none."""
    try:
        with cast("AbstractContextManager[_File]", safe_open(path, framework="pt")) as file:
            return str(json.loads((file.metadata() or {})[_HEADER])["key"]["model"])
    except (SafetensorError, OSError, ValueError, KeyError, TypeError):
        return None


def write_segment(path: Path, key: Key, segment: KVSegment) -> None:
    """Writes a file beside its place, flushes it to the disk, and renames it.

    Raises:
        OSError, SafetensorError: If the disk refuses it; nothing is left behind, and a file that stood there stays.
    """
    place = segment.moved(int(segment.written[0]))  # where it stands now is the user's matter
    tensors = {"ids": torch.tensor(place.ids), "written": torch.tensor(place.written)}
    for index, (keys, values) in enumerate(zip(place.keys, place.values, strict=True)):
        tensors[f"keys.{index}"] = keys.cpu().contiguous()
        tensors[f"values.{index}"] = values.cpu().contiguous()
    header = {"key": key, "checksum": checksum_of(key, place)}
    temporary = path.parent / f".{path.stem}.{uuid.uuid4().hex}.tmp"
    try:
        save_file(tensors, temporary, metadata={_HEADER: json.dumps(header, sort_keys=True)})
        temporary.chmod(0o600)
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

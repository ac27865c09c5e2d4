"""The store on disk: the same bytes back, nothing trusted, nothing truncated, bounded, for several processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import struct
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
import torch

from pkv_agents.errors import SegmentError
from pkv_agents.kv import DiskStore, FieldSpan, KVSegment, SegmentModel, compile_segment, splice
from pkv_agents.kv import _segment_file as file_module
from pkv_agents.kv import disk as disk_module
from pkv_agents.notices import Notice
from tests.kv.zoo import build, config_of, some_ids, tiny

SKILL, PREAMBLE = some_ids(12), some_ids(3, 2)


@cache
def model() -> SegmentModel:
    return SegmentModel(tiny("llama"))


def new_store(folder: Path, **options: int) -> tuple[DiskStore, list[Notice]]:
    told: list[Notice] = []
    return DiskStore(folder, on_notice=told.append, **options), told


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*.safetensors")
    return path


@pytest.mark.parametrize("preamble", [[], PREAMBLE])
def test_what_comes_back_is_what_was_computed(tmp_path: Path, preamble: list[int]) -> None:
    store, told = new_store(tmp_path)
    fresh = store.compile(model(), SKILL, preamble=preamble)
    other, _ = new_store(tmp_path)  # as another process would
    back = other.load(model(), SKILL, preamble=preamble)
    assert back is not None and back is not fresh
    assert (back.checksum(), back.origin, back.digest) == (fresh.checksum(), fresh.origin, fresh.digest)
    assert back.checksum() == compile_segment(model(), SKILL, preamble=preamble).checksum()
    assert told == []
    left, right = (splice(model(), None, [segment], query=[5], seam=1).logits for segment in (fresh, back))
    assert left is not None and right is not None and torch.equal(left, right)


def test_fields_are_the_callers(tmp_path: Path) -> None:
    store, _ = new_store(tmp_path)
    span = FieldSpan("limit", 2, 4)
    assert store.compile(model(), SKILL, fields=[span]).fields == (span,)
    assert store.compile(model(), SKILL).fields == ()


def test_half_precision_and_latents_come_back_too(tmp_path: Path) -> None:
    store, told = new_store(tmp_path)
    for one in (SegmentModel(build(config_of("llama")).bfloat16()), SegmentModel(tiny("deepseek_v3"))):
        fresh = store.compile(one, SKILL, preamble=PREAMBLE)
        back = store.load(one, SKILL, preamble=PREAMBLE)
        assert back is not None and back.checksum() == fresh.checksum()
    assert told == []


def test_everything_that_changes_a_segment_is_in_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, told = new_store(tmp_path)
    store.compile(model(), SKILL, preamble=PREAMBLE)
    assert store.load(model(), SKILL) is None
    assert store.load(model(), [*SKILL[:-1], 1], preamble=PREAMBLE) is None
    assert store.load(model(), SKILL, preamble=PREAMBLE[:-1]) is None
    assert store.load(SegmentModel(build(config_of("llama"), seed=1)), SKILL, preamble=PREAMBLE) is None
    linear = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
    assert store.load(SegmentModel(build(config_of("llama", rope_parameters=linear))), SKILL, preamble=PREAMBLE) is None
    assert store.load(SegmentModel(build(config_of("llama")).bfloat16()), SKILL, preamble=PREAMBLE) is None
    monkeypatch.setattr(file_module, "FORMAT", 2)
    assert store.load(model(), SKILL, preamble=PREAMBLE) is None
    assert told == []


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(bytes(content))


def text(path: Path) -> None:
    path.write_text("not ours")


def of_another_model(path: Path) -> None:
    store, _ = new_store(path.parent / "other")
    store.compile(SegmentModel(build(config_of("llama"), seed=1)), SKILL)
    only_file(path.parent / "other").rename(path)


def with_another_header(path: Path) -> None:
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    ours = json.loads(header["__metadata__"]["pkv_agents"])
    header["__metadata__"]["pkv_agents"] = json.dumps({**ours, "checksum": "0" * 64})
    changed = json.dumps(header).encode()
    changed += b" " * (-len(changed) % 8)
    path.write_bytes(struct.pack("<Q", len(changed)) + changed + content[8 + size :])


def without_header(path: Path) -> None:
    from safetensors.torch import save_file

    path.unlink()
    save_file({"ids": torch.tensor(SKILL)}, path)


@pytest.mark.parametrize("spoil", [empty, cut, flip, text, of_another_model, with_another_header, without_header])
def test_a_damaged_or_foreign_file_is_reported_and_compiled_again(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    store, told = new_store(tmp_path)
    want = store.compile(model(), SKILL).checksum()
    assert store.load(model(), SKILL) is not None  # verified, and still not believed after the file has changed
    spoil(only_file(tmp_path))
    assert store.compile(model(), SKILL).checksum() == want
    assert [notice.code for notice in told] == ["kv_file_rejected"]
    assert told[0].path == only_file(tmp_path).name
    again = store.load(model(), SKILL)
    assert again is not None and again.checksum() == want and len(told) == 1


def test_a_file_is_verified_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = new_store(tmp_path)
    store.compile(model(), SKILL)
    counted: list[int] = []
    verify = disk_module.checksum_of

    def counting(key: dict[str, object], segment: KVSegment) -> str:
        counted.append(1)
        return verify(key, segment)

    monkeypatch.setattr(disk_module, "checksum_of", counting)
    for _ in range(3):
        store.load(model(), SKILL)
    assert len(counted) == 1
    os.utime(only_file(tmp_path))  # it may be another content now
    store.load(model(), SKILL)
    assert len(counted) == 2


def test_what_is_mapped_survives_replacement_and_deletion(tmp_path: Path) -> None:
    store, _ = new_store(tmp_path)
    store.compile(model(), SKILL)
    mapped = store.load(model(), SKILL)
    assert mapped is not None
    before = mapped.checksum()
    inode = only_file(tmp_path).stat().st_ino
    store.save(model(), compile_segment(model(), SKILL))
    assert only_file(tmp_path).stat().st_ino != inode  # renamed over it, never written in place
    store.clear()
    assert mapped.checksum() == before and store.size() == 0


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    store, _ = new_store(tmp_path / "new")
    store.compile(model(), SKILL)
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
    assert only_file(tmp_path / "new").stat().st_mode & 0o077 == 0


def test_a_write_that_dies_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, told = new_store(tmp_path)
    store.compile(model(), SKILL)
    before = only_file(tmp_path).read_bytes()

    def full(*arguments: object, **options: object) -> None:
        Path(str(arguments[1])).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_module, "save_file", full)
    assert store.save(model(), compile_segment(model(), SKILL)) is False
    assert store.compile(model(), [1, 2, 3]).ids.tolist() == [1, 2, 3]  # it goes on without the disk
    assert {notice.code for notice in told} == {"kv_file_failed"}
    assert [path.name for path in tmp_path.iterdir()] == [only_file(tmp_path).name]
    assert only_file(tmp_path).read_bytes() == before


def test_the_store_is_bounded_and_what_was_used_last_stays(tmp_path: Path) -> None:
    store, _ = new_store(tmp_path)
    store.compile(model(), SKILL)
    size = store.size()
    store.clear()
    bounded, _ = new_store(tmp_path, max_bytes=int(size * 2.5))
    foreign = tmp_path / "notes.safetensors"
    foreign.write_bytes(b"x" * size)
    skills = [[*SKILL[:-1], last] for last in (1, 2, 3)]
    for position, skill in enumerate(skills[:2]):
        bounded.compile(model(), skill)
        path = sorted(tmp_path.glob("?" * 64 + ".safetensors"), key=lambda path: path.stat().st_ctime_ns)[-1]
        os.utime(path, ns=(position, path.stat().st_mtime_ns))  # long ago, one after the other
    assert bounded.load(model(), skills[0]) is not None  # used just now
    bounded.compile(model(), skills[2])
    assert [bounded.load(model(), skill) is not None for skill in skills] == [True, False, True]
    assert bounded.size() <= bounded.max_bytes and foreign.exists()


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    store, told = new_store(tmp_path)
    store.compile(model(), SKILL)
    path = only_file(tmp_path)
    path.unlink()
    path.mkdir()
    assert store.compile(model(), SKILL).ids.tolist() == SKILL
    assert told and {notice.code for notice in told} <= {"kv_file_failed", "kv_file_rejected"}


def test_tensors_are_mapped_not_copied(tmp_path: Path) -> None:
    store, _ = new_store(tmp_path)
    store.compile(model(), SKILL)
    back = store.load(model(), SKILL)
    assert back is not None and only_file(tmp_path).name in Path("/proc/self/maps").read_text()


def test_what_is_larger_than_the_store_is_not_kept(tmp_path: Path) -> None:
    store, told = new_store(tmp_path, max_bytes=100)
    assert store.compile(model(), SKILL).ids.tolist() == SKILL
    assert store.size() == 0 and told == []


def test_left_overs_of_a_dead_process_go(tmp_path: Path) -> None:
    store, _ = new_store(tmp_path)
    old, new = (tmp_path / f".{'0' * 64}.{digit * 32}.tmp" for digit in "ab")
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    store.compile(model(), SKILL)
    assert not old.exists() and new.exists()


def test_only_what_was_compiled_is_stored(tmp_path: Path) -> None:
    store, _ = new_store(tmp_path)
    skill = compile_segment(model(), SKILL, preamble=PREAMBLE)
    spliced = splice(model(), compile_segment(model(), [1, 2]), [skill]).segment
    for segment, preamble in ((skill, []), (skill, PREAMBLE[:1]), (spliced, []), (skill.slice(1, 5), PREAMBLE)):
        with pytest.raises(SegmentError, match="same preamble"):
            store.save(model(), segment, preamble=preamble)
    assert store.save(model(), skill.moved(50), preamble=PREAMBLE)  # where it stands now does not matter
    back = store.load(model(), SKILL, preamble=PREAMBLE)
    assert back is not None and back.checksum() == skill.checksum()


def work(folder: str) -> str:
    """What one of several processes does; each store starts knowing nothing."""
    told: list[Notice] = []
    store = DiskStore(folder, max_bytes=60_000, on_notice=told.append)
    for turn in range(12):
        skill = [*SKILL[:-1], 1 + turn % 4]
        if store.compile(model(), skill).checksum() != compile_segment(model(), skill).checksum():
            return "wrong content"
    return ", ".join(notice.code for notice in told) or "fine"


def test_several_stores_on_one_folder_at_once(tmp_path: Path) -> None:
    model()  # made here: torch's seed is the whole process's
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, [str(tmp_path)] * 3)) == ["fine"] * 3
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
def test_several_processes_at_once(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(work, [str(tmp_path)] * 2)) == ["fine"] * 2
    assert not list(tmp_path.glob(".*"))

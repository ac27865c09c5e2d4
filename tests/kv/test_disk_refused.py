"""The store on disk when the disk or the caller is at fault: a clear error or a notice, and the work goes on."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from pkv_agents.errors import SegmentError, StoreError
from pkv_agents.kv import DiskStore, SegmentModel, compile_segment
from pkv_agents.kv import _segment_file as file_module
from tests.kv.test_disk import SKILL, model, new_store
from tests.kv.zoo import build, config_of


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match=r"no folder for segments at .*; name one that can be made"):
            DiskStore(folder)


def test_a_folder_that_goes_away_is_reported_and_the_work_goes_on(tmp_path: Path) -> None:
    store, told = new_store(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert store.compile(model(), SKILL).ids.tolist() == SKILL
    assert [notice.code for notice in told] == ["kv_file_failed"]
    assert store.size() == 0
    store.clear()


def test_a_folder_that_may_not_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, told = new_store(tmp_path)
    tmp_path.chmod(0o500)

    def refused(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(file_module, "save_file", refused)  # root may write anywhere
    try:
        assert store.save(model(), compile_segment(model(), SKILL)) is False
        assert store.compile(model(), SKILL).ids.tolist() == SKILL
    finally:
        tmp_path.chmod(0o700)
    assert {notice.code for notice in told} == {"kv_file_failed"} and "can be written" in told[0].mend


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the limit is one of POSIX")
def test_a_disk_without_room_is_reported_and_leaves_nothing(tmp_path: Path) -> None:
    """A real refusal by the system, in a process of its own: no file may grow beyond 4 kB."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(without_room, str(tmp_path)).result() == "kv_file_failed, kept nothing"
    assert list(tmp_path.iterdir()) == []


def without_room(folder: str) -> str:
    import resource

    store, told = new_store(Path(folder))
    segment = compile_segment(model(), SKILL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    kept = store.save(model(), segment)
    return f"{', '.join(notice.code for notice in told)}, kept {'it' if kept else 'nothing'}"


def test_the_header_counts_too(tmp_path: Path) -> None:
    segment = compile_segment(model(), SKILL)
    store, _ = new_store(tmp_path, max_bytes=segment.nbytes + 10)
    assert store.save(model(), segment) is False and store.size() == 0


def test_the_revision_of_a_model_is_in_its_key(tmp_path: Path) -> None:
    store, _ = new_store(tmp_path)
    store.compile(model(), SKILL)
    other = build(config_of("llama"))
    assert store.load(SegmentModel(other), SKILL) is not None  # the same weights
    other.config._commit_hash = "f00"
    assert store.load(SegmentModel(other), SKILL) is None


def test_a_segment_of_another_adapter_is_refused(tmp_path: Path) -> None:
    store, told = new_store(tmp_path)
    other = compile_segment(SegmentModel(build(config_of("llama"), seed=1)), SKILL)
    with pytest.raises(SegmentError, match="another model or adapter"):
        store.save(model(), other)
    assert list(tmp_path.iterdir()) == [] and told == []

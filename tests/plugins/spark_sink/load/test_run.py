"""A load from start to end: what is checked, when, and what is reported."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from tests.plugins.spark_sink.load.loads import IDENTITY, KeptProgress, Lines, load_of, run, small_plan
from tidelog.kernel import disk
from tidelog.plugins.spark_sink.load.directory import Commit, LoadDirectory
from tidelog.plugins.spark_sink.load.errors import LoadFailed
from tidelog.plugins.spark_sink.load.plan import Chunk, LoadPlan


class FailingAt(Lines):
    """Fails at a chunk, as a load that is stopped there."""

    def __init__(self, chunk: int) -> None:
        self._left = chunk

    def write(self, chunk: Chunk, folder: Path, on_progress: Callable[[float], None]) -> int:
        """Write, or fail."""
        if not self._left:
            raise LoadFailed("stopped")
        self._left -= 1
        return super().write(chunk, folder, on_progress)


def stopped_at(path: Path, chunk: int) -> None:
    """Run a load that ends before a chunk."""

    @contextmanager
    def writer(plan: LoadPlan) -> Generator[Lines]:
        yield FailingAt(chunk)

    with pytest.raises(LoadFailed, match="stopped"):
        run(path, writer=writer)


def test_only_what_remains_of_a_load_that_is_continued_is_checked_and_written(tmp_path: Path) -> None:
    checked: list[tuple[LoadPlan, list[int]]] = []

    def check(plan: LoadPlan, remaining: list[int]) -> None:
        checked.append((plan, remaining))

    def never() -> LoadPlan:
        raise AssertionError("a stored plan is not made again")

    stopped_at(tmp_path, 1)
    shown = KeptProgress()
    summary = run(tmp_path, check_plan=check, make_plan=never, progress=shown)
    assert checked == [(small_plan(), [1, 2])]
    assert (summary.chunks_before, summary.chunks, summary.records) == (1, 3, 11)
    assert shown.begun == [(11, 3)]
    # Half of a chunk of 4 offsets at each of its files, and all of it when it is committed.
    assert shown.done == [5, 5, 7, 9, 11]
    run(tmp_path, check_plan=check, make_plan=never)
    assert len(checked) == 1, "nothing remains"
    run(tmp_path / "other", check_plan=check)
    assert len(checked) == 1, "a new plan was just made"


def test_a_summary_counts_offsets_times_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([100.0, 107.5])
    monkeypatch.setattr("tidelog.plugins.spark_sink.load.run.time.monotonic", lambda: next(now))
    found = attrs.asdict(run(tmp_path))
    assert found.pop("size_bytes") > 0
    assert found == {
        "topics": 2,
        "partitions": 3,
        "records": 11,
        "files": 6,
        "seconds": 7.5,
        "chunks_before": 0,
        "chunks": 3,
    }


def test_the_files_of_a_directory_of_a_release_are_found_by_later_ones(tmp_path: Path) -> None:
    """Loads outlive releases: names and contents are part of what they store."""
    directory = LoadDirectory(tmp_path / "t")
    assert directory.spark_log == tmp_path / "t" / "_tidelog_load" / "spark.log"
    stopped_at(tmp_path / "t", 1)
    folder = tmp_path / "t" / "_tidelog_load"
    assert sorted(each.name for each in folder.iterdir()) == ["commits", "lock", "plan.json", "staging"]
    (commit,) = (folder / "commits").iterdir()
    stored = Commit.decode(commit.read_bytes())
    assert commit.name == "000000.json"
    assert commit.read_text() == (
        f'{{"chunk": 0, "staging": "{stored.staging}", "files": ["topic=a/part-00000-5.txt", '
        f'"topic=a/part-00001-0.txt", "topic=b/part-00000-100.txt"], "records": 3, '
        f'"size_bytes": {stored.size_bytes}}}'
    )
    assert stored.staging.startswith("000000-")
    assert {str(each.relative_to(tmp_path / "t")) for each in (tmp_path / "t").glob("topic=*/*")} == {
        "topic=a/chunk-000000-part-00000-5.txt",
        "topic=a/chunk-000000-part-00001-0.txt",
        "topic=b/chunk-000000-part-00000-100.txt",
    }
    run(tmp_path / "t")
    assert (tmp_path / "t" / "_SUCCESS").read_bytes() == b""


def test_a_removal_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    run(tmp_path)
    folder = tmp_path / "_tidelog_load"
    (folder / "plan.json").rename(folder / "discarded.json")
    directory = LoadDirectory(tmp_path)
    assert (directory.has_load, directory.plan()) == (True, None)
    directory.discard()
    assert not directory.has_load
    assert [each.name for each in tmp_path.iterdir()] == ["_tidelog_load"]
    assert [each.name for each in folder.iterdir()] == ["lock"]


def test_overwrite_makes_a_plan_of_its_own(tmp_path: Path) -> None:
    run(tmp_path)
    other = attrs.evolve(small_plan(), request={**IDENTITY, "--format": "orc"})
    run(tmp_path, overwrite=True, identity=other.request, make_plan=lambda: other)
    assert LoadDirectory(tmp_path).plan() == other


def test_every_step_of_a_load_is_durable_before_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut nothing is found that a later step has made without what came before it."""
    steps: list[tuple[str, str]] = []

    def noted(name: str) -> None:
        original = getattr(disk, name)

        def operation(given: Path | str, *arguments: object, **options: object) -> object:
            steps.append((name, os.path.relpath(given, tmp_path)))
            return original(given, *arguments, **options)

        monkeypatch.setattr(disk, name, operation)

    for name in ("mkdir", "rename", "sync_directory", "remove_tree", "write_file", "remove_if_there"):
        noted(name)
    run(tmp_path / "t")
    assert steps[:4] == [
        ("mkdir", "t"),
        ("sync_directory", "."),
        ("mkdir", "t/_tidelog_load"),
        ("sync_directory", "t"),
    ]
    assert steps[-2:] == [("write_file", "t/_SUCCESS"), ("sync_directory", "t")]
    moved = [index for index, step in enumerate(steps) if step[0] == "rename" and "part-" in step[1]]
    removed = [index for index, step in enumerate(steps) if step[0] == "remove_tree"]
    assert len(moved) == 6
    for before, after in zip([0, *removed], removed, strict=False):
        for index in moved:
            if before < index < after:
                topic = "t/topic=" + steps[index][1].split("topic=")[1][0]
                assert ("sync_directory", topic) in steps[index:after]
    steps.clear()
    LoadDirectory(tmp_path / "t").discard()
    names = [step[0] for step in steps]
    assert steps[:2] == [
        ("rename", "t/_tidelog_load/plan.json"),
        ("sync_directory", "t/_tidelog_load"),
    ]
    assert steps[-2:] == [
        ("remove_if_there", "t/_tidelog_load/discarded.json"),
        ("sync_directory", "t/_tidelog_load"),
    ]
    assert names.count("remove_if_there") == 8


def test_a_load_that_began_meanwhile_is_not_begun_again_by_one_without_overwrite(tmp_path: Path) -> None:
    load = load_of(tmp_path, overwrite=True)

    def make_plan() -> LoadPlan:
        run(tmp_path)
        return small_plan()

    assert attrs.evolve(load, make_plan=make_plan).run().chunks_before == 0

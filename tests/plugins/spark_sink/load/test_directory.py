"""The directory of a load: whose it is, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from tests.plugins.spark_sink.load.loads import (
    IDENTITY,
    RECORDS,
    KeptProgress,
    load_of,
    records_in,
    run,
    small_plan,
)
from tidelog.kernel import disk
from tidelog.plugins.spark_sink.load.directory import FOLDER, SUCCESS, LoadDirectory, make_folders
from tidelog.plugins.spark_sink.load.errors import LoadFailed
from tidelog.plugins.spark_sink.load.plan import LoadPlan


def test_load_summarizes_all_its_starts(tmp_path: Path) -> None:
    first, second = run(tmp_path / "t"), run(tmp_path / "t")
    assert (first.topics, first.partitions, first.records, first.files) == (2, 3, 11, 6)
    assert first.size_bytes == sum(file.stat().st_size for file in (tmp_path / "t").rglob("*.txt"))
    assert (first.chunks_before, second.chunks_before, second.chunks, second.records) == (0, 3, 3, 11)


def test_load_shows_progress_in_offsets(tmp_path: Path) -> None:
    shown = KeptProgress()
    run(tmp_path / "t", progress=shown)
    assert shown.begun == [(11, 0)]
    assert shown.done[0] == 1.5
    assert shown.done[-1] == 11


def test_load_leaves_only_its_files_where_readers_look(tmp_path: Path) -> None:
    run(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == [SUCCESS, FOLDER, "topic=a", "topic=b"]
    assert not (tmp_path / FOLDER / "staging").exists()
    assert all(file.name.startswith("chunk-00000") for file in tmp_path.glob("topic=*/*"))


def foreign(path: Path) -> None:
    path.mkdir()
    (path / "report.ods").touch()


def a_file(path: Path) -> None:
    path.touch()


def an_edited_plan(path: Path) -> None:
    run(path)
    (path / FOLDER / "plan.json").write_text("{}")


def a_later_plan(path: Path) -> None:
    run(path)
    plan = path / FOLDER / "plan.json"
    plan.write_text(plan.read_text().replace('"version": 1', '"version": 2'))


def one_of_orc(path: Path) -> None:
    orc = {**IDENTITY, "--format": "orc"}
    run(path, identity=orc, make_plan=lambda: attrs.evolve(small_plan(), request=orc))


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (foreign, "has other content, such as report.ods: name a directory that is empty"),
        (a_file, "is a file: name a directory that is empty or does not exist"),
        (an_edited_plan, r"plan.json is not the plan of a load \(KeyError\('version'\)\)"),
        (a_later_plan, "has the version 2, and this tidelog knows 1: .* --overwrite"),
        (one_of_orc, r'has another load: --format was "orc" and is now "lines".*with --overwrite'),
    ],
)
def test_load_refuses_the_directory_of_something_else(
    tmp_path: Path, before: Callable[[Path], None], message: str
) -> None:
    before(tmp_path / "t")
    files = sorted((tmp_path / "t").rglob("*"))
    with pytest.raises(LoadFailed, match=message):
        run(tmp_path / "t")
    assert sorted((tmp_path / "t").rglob("*")) == files


@pytest.mark.parametrize("before", [an_edited_plan, a_later_plan, one_of_orc])
def test_overwrite_removes_what_an_earlier_load_has_written(
    tmp_path: Path, before: Callable[[Path], None]
) -> None:
    before(tmp_path / "t")
    (tmp_path / "t" / "notes").touch()
    assert run(tmp_path / "t", overwrite=True).chunks_before == 0
    assert (tmp_path / "t" / "notes").exists()
    (tmp_path / "t" / "notes").unlink()
    assert records_in(tmp_path / "t") == dict.fromkeys(RECORDS, 1)


def test_overwrite_does_not_take_the_directory_of_something_else(tmp_path: Path) -> None:
    foreign(tmp_path / "t")
    with pytest.raises(LoadFailed, match="has other content"):
        run(tmp_path / "t", overwrite=True)


def test_a_request_that_cannot_be_served_leaves_no_trace(tmp_path: Path) -> None:
    def make_plan() -> None:
        raise LoadFailed("no such topic")

    with pytest.raises(LoadFailed, match="no such topic"):
        run(tmp_path / "t", make_plan=make_plan)
    assert not (tmp_path / "t").exists()


def test_only_one_load_at_a_time_has_a_directory(tmp_path: Path) -> None:
    with (
        LoadDirectory(tmp_path).locked(),
        pytest.raises(LoadFailed, match=r"Another load into .* is running"),
    ):
        run(tmp_path)
    assert run(tmp_path).records == 11


def test_load_that_began_meanwhile_is_not_begun_again(tmp_path: Path) -> None:
    def make_plan() -> LoadPlan:
        run(tmp_path)
        return small_plan()

    with pytest.raises(LoadFailed, match="has begun meanwhile: start this one again"):
        run(tmp_path, make_plan=make_plan)


def test_load_notices_a_committed_file_that_has_disappeared(tmp_path: Path) -> None:
    run(tmp_path)
    load = load_of(tmp_path)
    [commit, *_] = load.directory.recover().values()
    (tmp_path / FOLDER / "staging" / commit.staging).mkdir(parents=True)
    (tmp_path / commit.target(commit.files[0])).unlink()
    with pytest.raises(LoadFailed, match="is committed and has disappeared"):
        load.run()


def test_records_that_went_somewhere_else_are_an_error(tmp_path: Path) -> None:
    directory = LoadDirectory(tmp_path)
    with directory.locked(), pytest.raises(LoadFailed, match="wrote 3 records and no files"):
        directory.commit(0, directory.new_staging(0), 3)


def test_a_chunk_without_records_has_no_files(tmp_path: Path) -> None:
    directory = LoadDirectory(tmp_path)
    with directory.locked():
        staging = directory.new_staging(0)
        staging.mkdir()
        (staging / "part-00000.parquet").touch()
        assert directory.commit(0, staging, 0).files == ()
    assert [each.name for each in tmp_path.iterdir()] == [FOLDER]


def test_commit_takes_the_files_that_readers_find(tmp_path: Path) -> None:
    directory = LoadDirectory(tmp_path)
    staging = directory.new_staging(3)
    names = (
        "X.txt",
        "X/a.txt",
        "a/b_c/d.txt",
        "a/.e.crc",
        "a/_e",
        "_temporary/0/f.txt",
        ".g/h.txt",
        "_SUCCESS",
    )
    for name in names:
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).write_text(name)
    commit = directory.commit(3, staging, 1)
    assert commit.files == ("X.txt", "X/a.txt", "a/b_c/d.txt")
    assert commit.size_bytes == len("".join(commit.files))
    found = {str(each.relative_to(tmp_path)) for each in tmp_path.glob("[!_]*/**/*") if each.is_file()}
    assert found == {"X/chunk-000003-a.txt", "a/b_c/chunk-000003-d.txt"}
    assert (tmp_path / "chunk-000003-X.txt").read_text() == "X.txt"
    assert not staging.exists()


def test_commit_syncs_files_and_their_folders_before_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = LoadDirectory(tmp_path)
    staging = directory.new_staging(0)
    make_folders(staging / "topic=a" / "date=2026-01-31")
    (staging / "topic=a" / "date=2026-01-31" / "part-0.parquet").touch()
    synced: set[Path] = set()
    replace_file, sync_directory, fsync = disk.replace_file, disk.sync_directory, disk.fsync

    def sync(path: Path) -> None:
        synced.add(path)
        sync_directory(path)

    def sync_file(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    def replace(path: Path, content: bytes) -> None:
        assert synced >= {staging.parent, staging, *staging.rglob("*")}
        replace_file(path, content)

    monkeypatch.setattr(disk, "sync_directory", sync)
    monkeypatch.setattr(disk, "fsync", sync_file)
    monkeypatch.setattr(disk, "replace_file", replace)
    assert len(directory.commit(0, staging, 1).files) == 1


def test_load_commits_nothing_that_was_read_of_another_topic(tmp_path: Path) -> None:
    checked: list[LoadPlan] = []

    def check_topics(plan: LoadPlan) -> None:
        checked.append(plan)
        if len(checked) == 2:
            raise LoadFailed("created again")

    with pytest.raises(LoadFailed, match="created again"):
        run(tmp_path, check_topics=check_topics)
    assert len(load_of(tmp_path).directory.recover()) == 1
    assert checked == [small_plan()] * 2

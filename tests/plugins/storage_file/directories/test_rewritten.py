"""The checkpoints of how far cleanup policies have rewritten the logs of a directory."""

from __future__ import annotations

import contextlib
import errno
import shutil
from pathlib import Path

import pytest

from tests.crash.interposers import Unsynced
from tests.plugins.storage_file.files import LogDirectoryHarness, eventually
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage import WrittenBatch
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.storage.harness import append_many, read_all
from tidelog.plugins.storage_file.testing import CHANGING, DyingProcess, FailingDisk, ProcessDied

KAFKAS = "cleaner-offset-checkpoint"
OTHERS = "my-policy.2-rewrite-offset-checkpoint"
SETTINGS = {"segment_bytes": 500, "index_interval_bytes": 100}


async def test_load_takes_over_the_checkpoint_of_apache_kafka(harness: LogDirectoryHarness) -> None:
    for number in (0, 1, 2):
        append_many(await harness.open_store(partition=number), 20)
    await harness.close()
    (harness.log_dir / KAFKAS).write_bytes(b"0\n2\ntopic 2 20\ntopic 0 13\n")
    await harness.open_again()
    stores = [await harness.open_store(partition=number) for number in (0, 1, 2)]
    assert [store.rewritten_until("compact") for store in stores] == [13, None, 20]
    assert stores[0].rewritten_until("delete") is None


async def test_set_rewritten_until_writes_the_format_of_apache_kafka(harness: LogDirectoryHarness) -> None:
    stores = [await harness.open_store(partition=number) for number in (0, 1)]
    stores[1].set_rewritten_until("compact", 2**63 - 1)
    assert (harness.log_dir / KAFKAS).read_bytes() == b"0\n1\ntopic 1 9223372036854775807\n"
    stores[0].set_rewritten_until("compact", 0)
    assert (harness.log_dir / KAFKAS).read_bytes() == b"0\n2\ntopic 0 0\ntopic 1 9223372036854775807\n"
    stores[0].set_rewritten_until("my-policy.2", 5)
    assert (harness.log_dir / OTHERS).read_bytes() == b"0\n1\ntopic 0 5\n"
    assert {
        path.name for path in harness.log_dir.iterdir() if "cleaner" in path.name or "rewrite" in path.name
    } == {
        KAFKAS,
        OTHERS,
    }


async def test_set_rewritten_until_survives_a_crash(harness: LogDirectoryHarness, tmp_path: Path) -> None:
    store = await harness.open_store()
    append_many(store, 20)
    store.set_rewritten_until("compact", 12)
    crashed = harness.crash(tmp_path / "crashed")
    await crashed.open()
    assert (await crashed.open_store()).rewritten_until("compact") == 12
    await crashed.close()


async def test_set_rewritten_until_writes_nothing_once_the_directory_is_released(
    harness: LogDirectoryHarness,
) -> None:
    """It may be another broker's by then."""
    store = await harness.open_store()
    store.set_rewritten_until("compact", 0)
    before = (harness.log_dir / KAFKAS).read_bytes()
    harness.abandon()
    store.set_rewritten_until("compact", 5)
    store.set_rewritten_until("my-policy.2", 5)
    assert (harness.log_dir / KAFKAS).read_bytes() == before
    assert not (harness.log_dir / OTHERS).exists()


async def test_recall_checkpoints_leaves_a_new_partition_of_a_name_that_was_there(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """Its folder was removed by hand; there is nothing that it lost."""
    await harness.close()
    for name in (KAFKAS, "replication-offset-checkpoint"):
        (harness.log_dir / name).write_bytes(b"0\n1\ntopic 0 20\n")
    (harness.log_dir / OTHERS).write_bytes(b"0\n1\ntopic 0 0\n")
    await harness.open_again()
    store = await harness.open_store()
    assert (store.rewritten_until("compact"), store.rewritten_until("my-policy.2")) == (None, None)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


async def test_recall_checkpoints_forgets_how_far_a_log_is_rewritten_that_lost_its_end(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """By the time a policy looks at it, it may have grown beyond that offset."""
    store = await harness.open_store()
    append_many(store, 20)
    store.set_rewritten_until("compact", 21)
    store.set_rewritten_until("my-policy.2", 20)
    await harness.reopen()
    store = await harness.open_store()
    append_many(store, 20)
    assert store.rewritten_until("compact") is None
    assert store.rewritten_until("my-policy.2") == 20
    assert "cleanup policy compact had rewritten what is below 21" in caplog.text
    await harness.reopen()
    assert (await harness.open_store()).rewritten_until("compact") is None


@pytest.mark.parametrize("content", ["", "0\n2\ntopic 0 5\n", "1\n1\ntopic 0 5\n", "garbage"])
async def test_load_ignores_a_damaged_checkpoint_and_logs_it(
    harness: LogDirectoryHarness, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = await harness.open_store()
    append_many(store, 20)
    store.set_rewritten_until("compact", 12)
    store.set_rewritten_until("my-policy.2", 13)
    await harness.close()
    (harness.log_dir / KAFKAS).write_text(content)
    await harness.open_again()
    store = await harness.open_store()
    assert store.rewritten_until("compact") is None
    assert store.rewritten_until("my-policy.2") == 13
    assert (f"{harness.log_dir / KAFKAS} is damaged" in caplog.text) is bool(content)
    store.set_rewritten_until("compact", 7)
    assert (harness.log_dir / KAFKAS).read_bytes() == b"0\n1\ntopic 0 7\n"


async def test_write_rewritten_writes_nothing_that_is_there_already(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store()
    append_many(store, 20)
    store.set_rewritten_until("compact", 12)
    failing = FailingDisk()
    failing.refuse(errno.EIO, {"open_file", "rename"}, paths=lambda path: KAFKAS in path or OTHERS in path)
    with failing.installed():
        store.set_rewritten_until("compact", 12)
        store.truncate_to(15)
        store.truncate_to(15)
        await harness.close()
    assert not failing.refused
    await harness.open_again()
    store = await harness.open_store()
    with failing.installed():
        await harness.close()
    assert not failing.refused
    await harness.open_again()


async def test_set_rewritten_until_on_a_failing_disk_takes_the_directory_down(tmp_path: Path) -> None:
    """The other directory loses nothing and goes on; the failed one has its own again after a restart."""
    settings = {
        "storage": "file",
        "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}",
        "metadata.log.dir": str(tmp_path / "meta"),
    }
    failing = FailingDisk()
    async with running_broker(settings) as broker:
        partitions = (await broker.topics.create(TopicSpec("t", 2))).partitions
        lost, kept = sorted(
            partitions, key=lambda each: (tmp_path / "b" / str(each.topic_partition)).exists()
        )
        for partition in (lost, kept):
            append_many(partition.log.store, 20)
            partition.log.store.set_rewritten_until("compact", 10)
        with failing.installed():
            failing.refuse(errno.EIO, {"open_file"}, paths=lambda path: f"a/{KAFKAS}" in path)
            with pytest.raises(OSError, match="error"):
                lost.log.store.set_rewritten_until("compact", 15)
            await eventually(lambda: lost.log.offline is not None)
            failing.recover()
            with pytest.raises(OSError, match="a failed"):
                lost.log.store.set_rewritten_until("compact", 16)
            with pytest.raises(OSError, match="a failed"):
                lost.log.store.truncate_to(5)
        kept.log.store.set_rewritten_until("compact", 11)
        assert (tmp_path / "a" / KAFKAS).read_text() == f"0\n1\nt {lost.topic_partition.partition} 10\n"
        assert (tmp_path / "b" / KAFKAS).read_text() == f"0\n1\nt {kept.topic_partition.partition} 11\n"
    async with running_broker(settings) as broker:
        found = [each.log.store.rewritten_until("compact") for each in broker.topics.get("t").partitions]
        assert [found[each.topic_partition.partition] for each in (lost, kept)] == [10, 11]


@pytest.mark.in_memory
async def test_truncate_to_with_a_crash_at_every_step_leaves_nothing_new_that_counts_as_rewritten(
    tmp_path: Path, tasks: BackgroundTasks
) -> None:
    template = LogDirectoryHarness(tmp_path / "template", tasks)
    await template.open()
    store = await template.open_store(**SETTINGS)
    content = b"".join(append_many(store, 20, 100))
    store.set_rewritten_until("compact", 15)
    await template.reopen()
    outcomes: list[tuple[bool, int]] = []
    died = True
    while died:
        harness = template.crash(tmp_path / "copy")
        with Unsynced().installed():
            await harness.open()
            store = await harness.open_store(**SETTINGS)
            dying = DyingProcess(len(outcomes), CHANGING)
            with dying.installed(), contextlib.suppress(ProcessDied):
                store.truncate_to(9)
            died = dying.died
            harness.abandon()
            is_cut = sum(path.stat().st_size for path in harness.log_files()) < len(content)
            said = int((harness.log_dir / KAFKAS).read_text().split()[-1])
            outcomes.append((is_cut, said))
            crashed = harness.crash(tmp_path / "crashed")
            await crashed.open()
            store = await crashed.open_store(**SETTINGS)
            assert content.startswith(read_all(store))
            assert store.rewritten_until("compact") == said <= store.log_end_offset
            await crashed.close()
        await tasks.wait_for_jobs()
        shutil.rmtree(tmp_path / "copy")
        shutil.rmtree(tmp_path / "crashed")
    assert outcomes == sorted(outcomes, key=lambda outcome: (outcome[0], -outcome[1]))
    assert set(outcomes) == {(False, 15), (False, 9), (True, 9)}, "first it is lowered, then the log is cut"
    await template.close()


@pytest.mark.parametrize("written", [0, 1, 2])
async def test_discard_takes_the_file_away_from_a_writer(harness: LogDirectoryHarness, written: int) -> None:
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 20, 100)
    before = harness.names()
    draft = store.draft_segment(0)
    writer = draft.writer()

    def write(batch: bytes) -> None:
        header = parse_header(batch)
        writer.append(
            batch, [WrittenBatch(header.base_offset, header.last_offset, header.size, header.max_timestamp)]
        )

    for batch in batches[:written]:
        write(batch)
    assert harness.names() - before == {f"{0:020d}.log.cleaned"}
    draft.discard()
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            write(batches[written])
    if written:
        with pytest.raises(FileNotFoundError):
            writer.finish()
    assert harness.names() == before
    assert read_all(store) == b"".join(batches)

"""The files of a log directory, byte by byte."""

from __future__ import annotations

import os
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugins.storage_file.files import (
    CLEAN_MARK,
    LogDirectoryHarness,
    batches_in,
    offset_entries,
    time_entries,
)
from tidelog.kernel import disk
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage.harness import append, append_many, read_bytes

FIRST = "00000000000000000000"
TEN_MEGABYTES = 10 * 1024 * 1024


def expected_indexes(
    harness: LogDirectoryHarness, name: str, interval: int, *, closed: bool
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """What Apache Kafka's rule makes of a segment: an entry once more than the interval was added."""
    base = int(name)
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    since, largest = 0, (-1, 0)
    for position, header in batches_in(harness.partition_dir / f"{name}.log"):
        if header.max_timestamp > largest[0]:
            largest = (header.max_timestamp, header.last_offset - base)
        if since > interval:
            offsets.append((header.last_offset - base, position))
            if not times or largest[0] > times[-1][0]:
                times.append(largest)
            since = 0
        since += header.size
    if closed and (not times or largest[0] > times[-1][0]):
        times.append(largest)
    return offsets, times


async def test_close_trims_the_files_of_an_empty_partition(harness: LogDirectoryHarness) -> None:
    await harness.open_store()
    await harness.close()
    sizes = {path.name: path.stat().st_size for path in harness.partition_dir.iterdir()}
    assert sizes == {
        f"{FIRST}.log": 0,
        f"{FIRST}.index": 0,
        f"{FIRST}.timeindex": 0,
        "partition.metadata": 43,
    }


async def test_partition_metadata_has_the_topic_id_and_no_final_newline(harness: LogDirectoryHarness) -> None:
    await harness.open_store()
    encoded = urlsafe_b64encode(harness.topic_ids["topic"].bytes)[:22]
    content = (harness.partition_dir / "partition.metadata").read_bytes()
    assert content == b"version: 0\ntopic_id: " + encoded
    assert len(content) == 43


async def test_partition_metadata_is_durable_before_the_first_record(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def noting(sync: Callable[[int], None]) -> Callable[[int], None]:
        def note(fd: int) -> None:
            synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
            sync(fd)

        return note

    store = await harness.open_store()
    for name in ("fsync", "sync_data"):
        monkeypatch.setattr(disk, name, noting(getattr(disk, name)))
    append(store)
    store.flush()
    assert synced.index("partition.metadata") < synced.index("00000000000000000000.log")


async def test_the_log_directory_after_a_clean_stop(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store()
    append_many(store, 5, records=10)
    await harness.close()
    files = {path.name: path for path in harness.log_dir.iterdir() if path.is_file()}
    assert set(files) == {
        ".lock",
        CLEAN_MARK,
        "meta.properties",
        "recovery-point-offset-checkpoint",
    }
    assert files[".lock"].read_bytes() == b""
    assert files[CLEAN_MARK].read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert files["recovery-point-offset-checkpoint"].read_text() == "0\n1\ntopic 0 50\n"
    assert re.fullmatch(
        r"#\n"
        r"#\w{3} \w{3} \d{2} \d\d:\d\d:\d\d UTC \d{4}\n"
        r"node\.id=1\n"
        r"directory\.id=[\w-]{22}\n"
        r"version=1\n"
        rf"cluster\.id={harness.metadata.image.cluster_id}\n",
        files["meta.properties"].read_text(),
    )


async def test_the_clean_mark_is_gone_while_the_storage_is_open(harness: LogDirectoryHarness) -> None:
    await harness.reopen()
    assert not (harness.log_dir / CLEAN_MARK).exists()


async def test_raise_log_start_is_written_to_the_log_start_offset_checkpoint(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store()
    append_many(store, 20)
    store.raise_log_start(7)
    await harness.close()
    assert (harness.log_dir / "log-start-offset-checkpoint").read_text() == "0\n1\ntopic 0 7\n"


@pytest.mark.parametrize("interval", [0, 100, 1000, 4096])
@pytest.mark.parametrize("size", [10, 700])
async def test_append_adds_the_same_index_entries_as_apache_kafka(
    harness: LogDirectoryHarness, interval: int, size: int
) -> None:
    store = await harness.open_store(index_interval_bytes=interval, segment_bytes=20_000)
    for step in range(100):
        append(store, size, timestamp=START_MS + (step * 7 % 50), records=step % 3 + 1)
    await harness.close()
    names = [path.stem for path in harness.log_files()]
    assert len(names) == (1 if size == 10 else 4)
    for name in names:
        offsets, times = expected_indexes(harness, name, interval, closed=True)
        assert offset_entries(harness.partition_dir / f"{name}.index") == offsets
        assert time_entries(harness.partition_dir / f"{name}.timeindex") == times


async def test_roll_preallocates_the_active_indexes_and_trims_the_others(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(index_interval_bytes=0, segment_bytes=2000)
    append_many(store, 6, 900)
    await harness.tasks.wait_for_jobs()
    sizes = {path.name: path.stat().st_size for path in harness.partition_dir.glob("*index")}
    assert sizes == {
        f"{FIRST}.index": 8,
        f"{FIRST}.timeindex": 12,
        "00000000000000000002.index": 8,
        "00000000000000000002.timeindex": 12,
        "00000000000000000004.index": TEN_MEGABYTES,
        "00000000000000000004.timeindex": TEN_MEGABYTES - 4,
    }


async def test_preallocate_reserves_segment_bytes_and_close_trims_the_log(
    harness: LogDirectoryHarness,
) -> None:
    spec = harness.spec(config=TopicConfig({"preallocate": True, "segment.bytes": 100_000}))
    store: PartitionStore
    (store,) = await harness.storage.open_partitions([spec])
    content = append_many(store, 3, 1000)
    (path,) = harness.log_files()
    assert path.stat().st_size == 100_000
    assert read_bytes(store, 1) == b"".join(content[1:])
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    await harness.close()
    assert path.stat().st_size == sum(map(len, content))
    await crashed.open()
    (store,) = await crashed.storage.open_partitions([spec])
    assert read_bytes(store, 0) == b"".join(content)
    await crashed.close()


@pytest.mark.parametrize(
    "name", ["", "x", "../leader-epoch-checkpoint", "a/b.snapshot", "00000000000000000000.log"]
)
async def test_only_side_files_are_written_beside_a_log(harness: LogDirectoryHarness, name: str) -> None:
    store = await harness.open_store()
    with pytest.raises(ValueError, match="side file"):
        store.write_side_file(name, b"")
    assert store.read_side_file(name) is None


async def test_files_and_directories_are_not_readable_for_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with running_broker({"storage": "file", "log.dirs": str(tmp_path / "d")}) as broker:
            await broker.topics.create(TopicSpec("t", 1))
    finally:
        os.umask(before)
    root = tmp_path / "d"
    found = [root, *root.rglob("*")]
    assert len(found) > 10
    for path in found:
        assert path.stat().st_mode & 0o777 == (0o750 if path.is_dir() else 0o640), path

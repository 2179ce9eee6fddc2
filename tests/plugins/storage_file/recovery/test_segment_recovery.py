"""Recovery: what a crash or bad luck did to the files is cut off, and nothing else."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.storage_file.files import (
    CLEAN_MARK,
    LogDirectoryHarness,
    append_to,
    batches_in,
    cut,
    offset_entries,
    overwrite,
    time_entries,
)
from tidelog.kernel.records.batch import MAGIC_AT, BatchHeader, stamp_offset
from tidelog.kernel.records.control import EndMarker, marker_batch
from tidelog.kernel.seams.indexes import SegmentIndex
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage.harness import append, append_many, headers_of, read_all
from tidelog.plugins.storage_file.log_file import LogFile, iter_headers
from tidelog.plugins.storage_file.recovery import log_loader, segment_recovery
from tidelog.plugins.storage_file.recovery.segment_recovery import validate_batches
from tidelog.plugins.storage_file.segments.segment_builder import SegmentBuilder
from tidelog.plugins.storage_file.testing.interposing import Interposer

pytestmark = pytest.mark.in_memory

SETTINGS = {"segment_bytes": 4000, "index_interval_bytes": 300}
FIRST_LOG = "00000000000000000000.log"


def cut_tail(size: int, crashed: LogDirectoryHarness) -> None:
    cut(crashed.log_files()[-1], size)


def overwrite_first(position: int, content: bytes, crashed: LogDirectoryHarness) -> None:
    overwrite(crashed.log_files()[0], position, content)


def write_first(content: bytes, crashed: LogDirectoryHarness) -> None:
    crashed.log_files()[0].write_bytes(content)


def overwrite_second(position: int, content: bytes, crashed: LogDirectoryHarness) -> None:
    overwrite(crashed.log_files()[1], position, content)


async def crashed_with(
    harness: LogDirectoryHarness, damage: Callable[[LogDirectoryHarness], object]
) -> PartitionStore:
    """The partition as it is recovered after a crash now that also did some damage."""
    number = len(list(harness.log_dir.parent.glob("crash*")))
    crashed = harness.crash(harness.log_dir.parent / f"crash{number}")
    damage(crashed)
    await crashed.open()
    return await crashed.open_store(**SETTINGS)


def assert_indexed_like_new(store: PartitionStore, batches: list[bytes]) -> None:
    """Lookups by offset and by timestamp find everything."""
    for batch in batches:
        (header,) = headers_of(batch)
        found = store.read_batches(header.last_offset, 1, store.log_end_offset, wait=True)
        assert found.size == header.size
        at = store.batch_at_timestamp(header.max_timestamp)
        assert at is not None
        assert headers_of(at)[0].max_timestamp >= header.max_timestamp


async def test_validate_batches_keeps_every_batch_after_a_crash_without_damage(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 60, 200)
    segments = [(view.base_offset, view.size_bytes, view.max_timestamp) for view in store.segments()]
    assert len(segments) > 3
    again = await crashed_with(harness, lambda _: None)
    assert read_all(again) == b"".join(batches)
    assert [(view.base_offset, view.size_bytes, view.max_timestamp) for view in again.segments()] == segments
    assert_indexed_like_new(again, batches)
    batches.append(append(again, 100))
    assert read_all(again) == b"".join(batches)


@pytest.mark.parametrize("chunk_bytes", [512, 1 << 20], ids=["larger than the read buffer", "smaller"])
async def test_validate_batches_continues_behind_the_last_record_of_a_batch(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(segment_recovery, "CHUNK_BYTES", chunk_bytes)
    await harness.open_store(**SETTINGS)
    batches = [bytes(make_batch([b"v" * 500] * count, offset)) for offset, count in [(0, 3), (3, 1), (4, 5)]]
    for kept in range(1, 4):
        content = b"".join(batches[:kept])
        again = await crashed_with(harness, partial(write_first, content))
        assert again.log_end_offset == [3, 4, 9][kept - 1]
        assert read_all(again) == content


class NoIndex:
    """An `IndexBuilder` that writes nothing."""

    def add(self, last_offset: int, position: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Forget it."""

    def finish(self, max_timestamp: int, max_timestamp_offset: int) -> SegmentIndex:
        """There is none."""
        raise NotImplementedError


@pytest.mark.parametrize("has_marker", [False, True])
def test_validate_batches_takes_what_a_file_still_has_that_became_shorter(
    tmp_path: Path, has_marker: bool
) -> None:
    whole = [bytes(make_batch([b"v" * 100], offset)) for offset in range(2)]
    if has_marker:
        marker, _ = marker_batch(7, 1, EndMarker(True, 3), 0)
        stamp_offset(marker, 2, 0)
        whole.append(bytes(marker))
    torn = bytes(make_batch([b"v" * 100], len(whole)))
    path = tmp_path / FIRST_LOG
    path.write_bytes(b"".join(whole) + torn[:-10])
    builder = SegmentBuilder(0, 1 << 20, NoIndex())
    log = LogFile(str(path), os.O_RDONLY)
    size = sum(map(len, whole))
    assert validate_batches(log, size + len(torn), None, builder) is has_marker
    assert (builder.size, builder.next_offset) == (size, len(whole))


async def test_validate_batches_cuts_only_the_last_batch_if_it_is_torn_anywhere(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 5, 40)
    size = sum(map(len, batches))
    for torn in (*range(size - len(batches[-1]), size, 3), size - 1):
        again = await crashed_with(harness, partial(cut_tail, torn))
        assert again.log_end_offset == 4
        assert read_all(again) == b"".join(batches[:-1])
        assert again.size_bytes == size - len(batches[-1])


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\0",
        b"\0" * 61,
        b"\0" * 10_000,
        b"\xff" * 5000,
        bytes(range(256)) * 20,
        b"\0\0\0\0\0\0\0\5\0\0\0\x31" + b"\0" * 200,
        b"\0\0\0\0\0\0\0\5\x7f\xff\xff\xff" + b"\0\0\0\0\2" + b"\0" * 200,
    ],
    ids=["one zero", "zero header", "zero blocks", "ones", "pattern", "short batch", "huge length"],
)
async def test_validate_batches_cuts_off_bytes_that_are_no_batches(
    harness: LogDirectoryHarness, nonsense: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 5, 40)
    again = await crashed_with(harness, lambda crashed: append_to(crashed.log_files()[-1], nonsense))
    assert read_all(again) == b"".join(batches)
    (message,) = [record.getMessage() for record in caplog.records if record.name == log_loader.__name__]
    assert message.startswith(f"topic-0: cut {len(nonsense)} bytes that are no intact batches off")
    assert message.endswith("the log continues at offset 5")
    batches.append(append(again))
    assert read_all(again) == b"".join(batches)


@pytest.mark.parametrize("magic", [3, 127, 128, 253, 254, 255])
@pytest.mark.parametrize("clean", [False, True], ids=["crash", "clean stop without an index"])
async def test_validate_batches_ends_the_log_at_a_format_that_does_not_exist(
    harness: LogDirectoryHarness, clean: bool, magic: int
) -> None:
    """The checksum does not cover that byte, which is signed in Kafka's format."""
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 6, 40)
    if clean:
        await harness.close()

    def damage(crashed: LogDirectoryHarness) -> None:
        overwrite_first(sum(map(len, batches[:4])) + MAGIC_AT, bytes([magic]), crashed)
        for path in crashed.partition_dir.glob("*.index"):
            remove(path)

    again = await crashed_with(harness, damage)
    assert again.log_end_offset == 4
    assert read_all(again) == b"".join(batches[:4])


async def test_validate_batches_cuts_off_an_old_batch_behind_the_end_of_the_log(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 5, 40)
    again = await crashed_with(harness, lambda crashed: append_to(crashed.log_files()[-1], batches[3]))
    assert read_all(again) == b"".join(batches)


async def test_validate_batches_ends_the_log_at_a_batch_with_a_flipped_bit(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 6, 20)
    start = sum(map(len, batches[:3]))
    # The leader epoch (bytes 12 to 15) and lower bits of the base offset are not covered by the CRC.
    for at in (*range(8, 12), *range(16, len(batches[3]))):
        flipped = bytes([batches[3][at] ^ 0x10])
        again = await crashed_with(
            harness,
            partial(overwrite_first, start + at, flipped),
        )
        assert again.log_end_offset == 3, f"byte {at}"
        assert read_all(again) == b"".join(batches[:3])


@pytest.mark.parametrize("bit", [8, 31, 40, 62])
async def test_validate_batches_accepts_an_offset_that_jumps_far_ahead(
    harness: LogDirectoryHarness, bit: int
) -> None:
    # The CRC does not cover the base offset, so that a broker can assign it.
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 5, 40)
    jumped = ((1 << bit) + 4).to_bytes(8, "big") + batches[4][8:]
    content = b"".join([*batches[:4], jumped])
    again = await crashed_with(harness, lambda crashed: crashed.log_files()[0].write_bytes(content))
    for appended in range(3):
        assert again.log_end_offset == (1 << bit) + 5 + appended
        assert read_all(again) == content
        content += append(again)


async def test_validate_batches_ends_the_log_where_batches_are_swapped(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 5, 40)
    swapped = b"".join([batches[0], batches[2], batches[1], *batches[3:]])
    again = await crashed_with(harness, lambda crashed: crashed.log_files()[0].write_bytes(swapped))
    assert read_all(again) == batches[0] + batches[2]
    assert again.log_end_offset == 3


async def test_validate_batches_does_not_find_batches_again_that_were_cut_off(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store()
    batches = append_many(store, 5, 200)
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    overwrite_first(sum(map(len, batches[:2])) + 100, b"\xff", crashed)
    await crashed.open()
    store = await crashed.open_store()
    assert store.log_end_offset == 2
    again = append(store, 200)
    assert len(again) == len(batches[2])
    second = crashed.crash(harness.log_dir.parent / "second")
    await second.open()
    assert read_all(await second.open_store()) == b"".join([*batches[:2], again])


async def test_log_loader_removes_the_segments_behind_a_damaged_one(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 60, 200)
    third = harness.log_files()[2]
    position, header = batches_in(third)[5]
    again = await crashed_with(
        harness, lambda crashed: overwrite(crashed.log_files()[2], position + 70, b"\xaa\xaa\xaa")
    )
    assert again.log_end_offset == header.base_offset
    assert read_all(again) == b"".join(batches[: header.base_offset])
    assert [view.base_offset for view in again.segments()] == [0, 14, 28]
    for path in harness.log_files()[3:]:
        assert f"removed {path.name} ({path.stat().st_size} bytes), it lies behind the cut" in caplog.text


class Removals(Interposer):
    """Notes which files are removed, and which directories are synced."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if name in ("unlink", "fsync"):
            self.noted.append(Path(self.path_of(name, arguments)).name)
        return perform(*arguments)


async def test_log_loader_syncs_the_directory_behind_what_it_removes(harness: LogDirectoryHarness) -> None:
    """With a loss of power the segments would be there again, behind what was appended in their place."""
    store = await harness.open_store(**SETTINGS)
    append_many(store, 60, 200)
    removed = harness.log_files()[2:]
    removals = Removals()
    with removals.installed():
        await crashed_with(harness, partial(overwrite_second, 70, b"\xaa\xaa\xaa"))
    noted = removals.noted
    last = max(noted.index(path.name) for path in removed)
    assert harness.partition_dir.name in noted[last + 1 :]


async def test_log_loader_takes_a_clean_log_as_it_is(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """Its indexes may be empty, if the log is small or has no timestamps, and files keep their age."""
    caplog.set_level(logging.INFO, log_loader.__name__)
    for size, timestamp in [(10, -1), (100, -1), (20, START_MS)]:
        store = await harness.open_store(**SETTINGS)
        append(store, size, timestamp=timestamp)
        await harness.close()
        modified_ms = START_MS - 86_400_000 - size
        for path in harness.log_files():
            os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
        await harness.open_again()
        store = await harness.open_store(**SETTINGS)
        assert {view.last_modified_ms for view in store.segments()} == {modified_ms}
        await harness.close()
        await harness.open_again()
    assert caplog.messages == []


async def test_log_loader_knows_how_old_each_segment_is(harness: LogDirectoryHarness) -> None:
    """Retention goes by that where records have no timestamps, to the millisecond."""
    store = await harness.open_store(**SETTINGS)
    append_many(store, 60, 200)
    await harness.close()
    ages = [START_MS - 86_400_000 * index for index, _ in enumerate(harness.log_files())]
    for path, modified_ms in zip(harness.log_files(), ages, strict=True):
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
    await harness.open_again()
    store = await harness.open_store(**SETTINGS)
    assert [view.last_modified_ms for view in store.segments()] == ages
    assert len(ages) > 2


async def test_log_loader_reads_no_batches_of_segments_with_usable_indexes(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start opens all segments of all partitions: what it reads of each of them adds up."""
    append_many(await harness.open_store(**SETTINGS), 60, 200)
    read: list[str] = []

    def noting(log: LogFile, position: int, size: int) -> Iterator[tuple[int, BatchHeader]]:
        read.append(log.path)
        return iter_headers(log, position, size)

    monkeypatch.setattr(log_loader, "iter_headers", noting)
    await harness.reopen()
    store = await harness.open_store(**SETTINGS)
    assert len(store.segments()) > 2
    assert read == []


async def test_log_loader_reads_only_the_begin_of_segments_without_timestamps(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their indexes have no times, which is right if the first batches have none."""
    store = await harness.open_store(**SETTINGS)
    for _ in range(60):
        append(store, 200, timestamp=-1)
    read: Counter[str] = Counter()

    def noting(log: LogFile, position: int, size: int) -> Iterator[tuple[int, BatchHeader]]:
        for found in iter_headers(log, position, size):
            read[log.path] += 1
            yield found

    monkeypatch.setattr(log_loader, "iter_headers", noting)
    await harness.reopen()
    store = await harness.open_store(**SETTINGS)
    assert len(read) == len(store.segments()) > 2
    assert max(read.values()) <= 3


@pytest.mark.parametrize("clean", [True, False])
async def test_log_loader_takes_a_segment_without_timestamps_for_as_old_as_its_file(
    harness: LogDirectoryHarness, clean: bool
) -> None:
    """Otherwise it would not be rolled as long as the broker is started often enough."""
    hourly = {**SETTINGS, "segment_ms": 3_600_000}
    append(await harness.open_store(**hourly), timestamp=-1)
    await harness.close()
    yesterday_ns = (START_MS - 86_400_000) * 1_000_000
    for path in harness.log_files():
        os.utime(path, ns=(yesterday_ns, yesterday_ns))
    if not clean:
        (harness.log_dir / CLEAN_MARK).unlink()
        (harness.log_dir / "recovery-point-offset-checkpoint").unlink()
    await harness.open_again()
    store = await harness.open_store(**hourly)
    append(store, timestamp=-1)
    append(store, timestamp=-1)
    assert [view.base_offset for view in store.segments()] == [0, 1]


@pytest.mark.parametrize("records", [1, 10])
async def test_validate_batches_cuts_a_segment_that_overlaps_the_next_one(
    harness: LogDirectoryHarness, records: int
) -> None:
    store = await harness.open_store(**SETTINGS)
    append_many(store, 30, 200)
    overlapping = bytes(make_batch([b"x"] * records, 14))
    again = await crashed_with(harness, lambda crashed: append_to(crashed.log_files()[0], overlapping))
    assert again.log_end_offset == 14


async def test_validate_batches_checks_only_segments_above_the_recovery_point(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 30, 200)
    store.flush()
    append_many(store, 10, 200)
    await harness.reopen()
    store = await harness.open_store(**SETTINGS)
    append_many(store, 3, 200)

    def damage(crashed: LogDirectoryHarness) -> None:
        checkpoint = crashed.log_dir / "recovery-point-offset-checkpoint"
        assert checkpoint.read_text() == "0\n1\ntopic 0 40\n"
        overwrite(crashed.log_files()[0], 70, b"\xaa\xaa\xaa")
        append_to(crashed.log_files()[-1], b"nonsense")

    again = await crashed_with(harness, damage)
    assert again.log_end_offset == 43
    assert len(read_all(again)) == again.size_bytes
    # It is found by whoever reads it, as it is.
    assert read_all(again)[len(batches[0]) :].startswith(batches[1])


@pytest.mark.parametrize("checkpoint", ["missing", "nonsense", "beyond the end"])
async def test_validate_batches_checks_all_segments_without_a_usable_recovery_point(
    harness: LogDirectoryHarness, checkpoint: str
) -> None:
    store = await harness.open_store(**SETTINGS)
    append_many(store, 30, 200)
    await harness.reopen()
    await harness.open_store(**SETTINGS)

    def damage(crashed: LogDirectoryHarness) -> None:
        path = crashed.log_dir / "recovery-point-offset-checkpoint"
        path.write_text(
            {"missing": "", "nonsense": "x", "beyond the end": "0\n1\ntopic 0 4000\n"}[checkpoint]
        )
        append_to(crashed.log_files()[-1], b"nonsense")
        if checkpoint != "beyond the end":
            overwrite(crashed.log_files()[0], 70, b"\xaa\xaa\xaa")

    again = await crashed_with(harness, damage)
    assert again.log_end_offset == (30 if checkpoint == "beyond the end" else 0)


def remove(path: Path) -> None:
    path.unlink()


INDEX_DAMAGE: dict[str, Callable[[Path], None]] = {
    "missing": remove,
    "empty": lambda path: cut(path, 0),
    "not a multiple of an entry": lambda path: append_to(path, b"\0\0\0"),
    "zeros at the end": lambda path: append_to(path, b"\0" * 240),
    "pointing past the end": lambda path: append_to(path, b"\x7f\xff\xff\xf0" * 6),
    "all zeros": lambda path: overwrite(path, 0, b"\0" * path.stat().st_size),
}


@pytest.mark.parametrize("segment", ["first", "active"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("name", INDEX_DAMAGE)
@pytest.mark.parametrize("clean", [False, True], ids=["crash", "clean stop"])
async def test_log_loader_rebuilds_a_missing_or_damaged_index(
    harness: LogDirectoryHarness,
    name: str,
    suffix: str,
    segment: str,
    clean: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 60, 200)
    if clean:
        await harness.close()
    paths = sorted(harness.partition_dir.glob(f"*{suffix}"))
    target = paths[0 if segment == "first" else -1].name
    again = await crashed_with(harness, lambda crashed: INDEX_DAMAGE[name](crashed.partition_dir / target))
    assert read_all(again) == b"".join(batches)
    assert_indexed_like_new(again, batches)
    if clean and name == "missing":
        assert "it is rebuilt" in caplog.text


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
async def test_log_loader_rebuilds_an_empty_index_after_a_clean_stop_without_a_warning(
    harness: LogDirectoryHarness, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Apache Kafka leaves one for a segment that it compacted in one append."""
    caplog.set_level(logging.INFO)
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 60, 200)
    await harness.close()
    target = min(harness.partition_dir.glob(f"*{suffix}")).name
    expected = (harness.partition_dir / target).read_bytes()
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    cut(crashed.partition_dir / target, 0)
    await crashed.open()
    assert_indexed_like_new(await crashed.open_store(**SETTINGS), batches)
    await crashed.close()
    assert (crashed.partition_dir / target).read_bytes() == expected
    (told,) = [record for record in caplog.records if "no entries" in record.getMessage()]
    assert told.levelno == logging.INFO
    assert told.getMessage().endswith("it is rebuilt from the log")


@pytest.mark.parametrize("damage", [remove, lambda path: cut(path, path.stat().st_size - 3)])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
async def test_log_loader_rebuilds_indexes_entry_for_entry(
    harness: LogDirectoryHarness, suffix: str, damage: Callable[[Path], None]
) -> None:
    store = await harness.open_store(**SETTINGS)
    append_many(store, 60, 200)
    await harness.close()
    expected = {path.name: path.read_bytes() for path in harness.partition_dir.glob("*index")}
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    for path in crashed.partition_dir.glob(f"*{suffix}"):
        damage(path)
    await crashed.open()
    await crashed.open_store(**SETTINGS)
    await crashed.close()
    assert {path.name: path.read_bytes() for path in crashed.partition_dir.glob("*index")} == expected
    for path in crashed.partition_dir.glob("*.index"):
        assert offset_entries(path)
        assert time_entries(path.with_suffix(".timeindex"))


async def test_log_loader_rebuilds_an_index_whose_newest_entry_is_of_another_batch(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(**SETTINGS)
    append_many(store, 60, 200)
    await harness.close()
    path = max(harness.partition_dir.glob("*.index"))
    expected = path.read_bytes()
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    relative, _ = offset_entries(path)[-1]
    overwrite(crashed.partition_dir / path.name, len(expected) - 8, (relative + 1).to_bytes(4, "big"))
    await crashed.open()
    await crashed.open_store(**SETTINGS)
    await crashed.close()
    assert (crashed.partition_dir / path.name).read_bytes() == expected


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
async def test_log_loader_recreates_a_missing_index_that_had_no_entries(
    harness: LogDirectoryHarness, suffix: str
) -> None:
    store = await harness.open_store(**SETTINGS)
    batches = [append(store, 10)]
    await harness.close()
    again = await crashed_with(harness, lambda crashed: remove(crashed.log_files()[0].with_suffix(suffix)))
    batches += append_many(again, 20, 200)
    assert read_all(again) == b"".join(batches)
    assert_indexed_like_new(again, batches)


async def test_log_loader_changes_nothing_in_a_second_recovery(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(**SETTINGS)
    append_many(store, 60, 200)
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    cut(crashed.log_files()[-1], crashed.log_files()[-1].stat().st_size - 10)
    contents: list[dict[str, bytes]] = []
    for number in range(3):
        crashed = crashed.crash(harness.log_dir.parent / f"again{number}")
        await crashed.open()
        await crashed.open_store(**SETTINGS)
        contents.append({path.name: path.read_bytes() for path in crashed.partition_dir.iterdir()})
    assert contents[0] == contents[1] == contents[2]


class IndexWrites(Interposer):
    """Notes which indexes below `folder` are written or truncated."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.noted: list[str] = []

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        path = Path(self.path_of(name, arguments))
        if name in ("ftruncate", "pwrite") and path.parent == self._folder and path.suffix.endswith("index"):
            self.noted.append(path.name)
        return perform(*arguments)


async def test_log_loader_leaves_indexes_as_a_clean_stop_does(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """To stop a broker that has recovered thousands of logs, none of their indexes is written again."""
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 60, 200)
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    await crashed.open()
    await crashed.open_store(**SETTINGS)
    writes = IndexWrites(crashed.partition_dir)
    with writes.installed():
        await crashed.close()
    assert writes.noted == []
    caplog.set_level(logging.INFO, log_loader.__name__)
    await crashed.open_again()
    assert_indexed_like_new(await crashed.open_store(**SETTINGS), batches)
    assert caplog.messages == []


async def test_validate_batches_checks_a_batch_larger_than_the_read_buffer(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_recovery, "CHUNK_BYTES", 512)
    store = await harness.open_store(segment_bytes=1 << 20)
    batches = [append(store, size) for size in (10, 5000, 440, 451, 452, 3, 100_000, 7)]
    again = await crashed_with(harness, lambda _: None)
    assert read_all(again) == b"".join(batches)
    position, _ = batches_in(harness.log_files()[0])[6]
    for at in (60_000, 100_050):
        again = await crashed_with(harness, partial(overwrite_first, position + at, b"\1"))
        assert read_all(again) == b"".join(batches[:6])


@pytest.mark.parametrize(
    "name", ["00000000000000000000.log.deleted", "leader-epoch-checkpoint.tmp", "0.log.cleaned"]
)
async def test_list_segment_files_removes_leftovers_of_an_interrupted_change(
    harness: LogDirectoryHarness, name: str
) -> None:
    store = await harness.open_store(**SETTINGS)
    append(store)
    again = harness.crash(harness.log_dir.parent / "crashed")
    (again.partition_dir / name).write_bytes(b"left over")
    await again.open()
    assert (await again.open_store(**SETTINGS)).log_end_offset == 1
    assert name not in again.names()
    await again.close()


async def test_list_segment_files_removes_an_index_without_its_log(harness: LogDirectoryHarness) -> None:
    append(await harness.open_store(**SETTINGS))
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    for suffix in ("index", "timeindex", "txnindex"):
        (crashed.partition_dir / f"00000000000000000077.{suffix}").write_bytes(b"")
    await crashed.open()
    await crashed.open_store(**SETTINGS)
    assert not [name for name in crashed.names() if name.startswith("00000000000000000077")]
    await crashed.close()


async def test_open_partition_recreates_a_log_that_ends_before_its_log_start_checkpoint(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    store = await harness.open_store(**SETTINGS)
    append_many(store, 40, 200)
    store.raise_log_start(30)
    await harness.close()
    for path in harness.log_files()[1:]:
        path.unlink()
    await harness.open_again()
    store = await harness.open_store(**SETTINGS)
    assert (store.log_start_offset, store.log_end_offset, store.size_bytes) == (30, 30, 0)
    assert "ends at offset 14, before its recorded start 30" in caplog.text


async def test_clean_shutdown_file_of_a_damaged_log_is_not_trusted(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(**SETTINGS)
    batches = append_many(store, 20, 200)
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    (crashed.log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    append_to(crashed.log_files()[-1], b"\0" * 5000)
    await crashed.open()
    assert crashed.storage.clean_start
    assert read_all(await crashed.open_store(**SETTINGS)) == b"".join(batches)
    await crashed.close()


async def test_open_partitions_recovers_partitions_in_parallel_and_reports_progress(
    harness: LogDirectoryHarness,
) -> None:
    specs = [harness.spec(partition=number) for number in range(20)]
    stores = await harness.storage.open_partitions(specs)
    contents = [append(store, 1000 * number) for number, store in enumerate(stores)]
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    await crashed.open()
    done: list[int] = []
    recovered = await crashed.storage.open_partitions(specs, done.append)
    assert [read_all(store) for store in recovered] == contents
    assert len(done) == 20
    assert done[-1] == 20
    await crashed.close()

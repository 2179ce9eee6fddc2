"""Logs with messages of the formats 0 and 1: recovered, indexed and read as they are."""

from __future__ import annotations

import struct
from itertools import accumulate

import pytest

from tests.kernel.records.message_sets import GZIP, Row, plain_set, wrapper
from tests.plugins.storage_file.files import LogDirectoryHarness, append_to, cut, overwrite
from tidelog.kernel.records.batch import parse_message
from tidelog.kernel.records.stored import iter_stored
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.storage.harness import read_all, slice_bytes
from tidelog.plugins.storage_file.recovery import segment_recovery

pytestmark = pytest.mark.in_memory

SETTINGS = {"segment_bytes": 1 << 20, "index_interval_bytes": 300}
TIME = 1_600_000_000_000
COUNT = 60


def stored_message(number: int) -> bytes:
    """A message that holds the offsets `3 * number` to `3 * number + 2`, or only the last of them."""
    magic, last = number % 2, 3 * number + 2
    time = TIME + number
    if number % 5:
        inner = plain_set([(time, None, b"v" * 50)] * 3, magic, 0 if magic else last - 2)
        return wrapper(inner, magic, GZIP, last, time)
    row: Row = (time, None, b"v" * (400 if number == 20 else 30))
    return plain_set([row], magic, last)


MESSAGES = [stored_message(number) for number in range(COUNT)]
SMALLEST = plain_set([(0, None, None)], 0, 3 * COUNT)
BATCH = bytes(make_batch([b"new"] * 2, 3 * COUNT + 1, timestamps=[TIME, TIME]))


async def with_log(harness: LogDirectoryHarness, content: bytes) -> LogDirectoryHarness:
    """The harness after a crash, with a log of these bytes."""
    await harness.open_store(**SETTINGS)
    crashed = harness.crash(harness.log_dir.parent / f"crash{len(list(harness.log_dir.parent.iterdir()))}")
    (log,) = crashed.log_files()
    append_to(log, content)
    await crashed.open()
    return crashed


@pytest.mark.parametrize("chunk_bytes", [100, 1 << 20])
@pytest.mark.parametrize("tail", [b"", SMALLEST, SMALLEST + BATCH])
async def test_validate_batches_takes_messages_of_both_formats(
    harness: LogDirectoryHarness, tail: bytes, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_recovery, "CHUNK_BYTES", chunk_bytes)
    content = b"".join(MESSAGES) + tail
    crashed = await with_log(harness, content)
    store = await crashed.open_store(**SETTINGS)
    assert read_all(store) == content
    for number, message in enumerate(MESSAGES):
        for offset in range(3 * number, 3 * number + 3):
            assert slice_bytes(store.read_batches(offset, 1, store.log_end_offset, wait=True)) == message
        found = store.batch_at_timestamp(TIME + number)
        assert found is not None
        assert parse_message(found).max_timestamp in (TIME + number, TIME + number + 1)
    # A message of format 0 has no time.
    (view,) = store.segments()
    assert view.max_timestamp == TIME + COUNT - 1
    if SMALLEST in tail:
        read = slice_bytes(store.read_batches(3 * COUNT, 1, store.log_end_offset, wait=True))
        assert read == SMALLEST
    end = store.log_end_offset
    added = bytes(make_batch([b"added"], end))
    store.append_batch(added, end, end, 1)
    assert read_all(store) == content + added
    await crashed.reopen()
    again = await crashed.open_store(**SETTINGS)
    assert (read_all(again), again.log_end_offset) == (content + added, end + 1)
    await crashed.close()


@pytest.mark.parametrize("torn", [True, False])
@pytest.mark.parametrize("number", [COUNT - 1, 20, 1, 0])
async def test_validate_batches_cuts_behind_the_last_message_with_its_crc(
    harness: LogDirectoryHarness, number: int, torn: bool
) -> None:
    crashed = await with_log(harness, b"".join(MESSAGES))
    await crashed.close()
    ends = list(accumulate(map(len, MESSAGES)))
    (log,) = crashed.log_files()
    if torn:
        cut(log, ends[number] - 1)
    else:
        overwrite(log, ends[number] - 1, b"\xfe")
    (crashed.log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    await crashed.open()
    store = await crashed.open_store(**SETTINGS)
    assert read_all(store) == b"".join(MESSAGES[:number])
    assert store.log_end_offset == 3 * number
    await crashed.close()


async def test_find_uses_an_index_with_the_first_offsets_of_compressed_messages(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """As Apache Kafka before 0.11 wrote it."""
    crashed = await with_log(harness, b"".join(MESSAGES))
    store = await crashed.open_store(**SETTINGS)
    assert len(list(iter_stored(memoryview(read_all(store))))) == COUNT
    await crashed.close()
    starts = [0, *accumulate(map(len, MESSAGES))]
    (log,) = crashed.log_files()
    entries = [struct.pack(">ii", 3 * number, starts[number]) for number in range(6, COUNT, 6)]
    log.with_suffix(".index").write_bytes(b"".join(entries))
    await crashed.open()
    caplog.clear()
    store = await crashed.open_store(**SETTINGS)
    for offset in range(3 * COUNT):
        read = store.read_batches(offset, 1, store.log_end_offset, wait=True)
        assert slice_bytes(read) == MESSAGES[offset // 3]
    assert not caplog.records
    assert log.with_suffix(".index").read_bytes()[:8] == entries[0]
    await crashed.close()

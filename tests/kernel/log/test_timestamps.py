"""What becomes of a batch's timestamps in topics of either kind."""

from __future__ import annotations

import pytest

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import InvalidTimestamp
from tidelog.kernel.log import AppendResult, Isolation, UnifiedLog, record_checks, validation
from tidelog.kernel.records import checking
from tidelog.kernel.records.batch import TIMESTAMP_TYPE_BIT, BatchHeader, parse_header, verify_crc
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.testing import FakeClock, make_batch

from .parts import changed, compressed, content, open_partition

LOG_APPEND_TIME = TopicConfig({"message.timestamp.type": "LogAppendTime"})
NOW = FakeClock().now_ms


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_append_keeps_the_create_time_of_records(codec: int) -> None:
    partition = open_partition()
    result = partition.append_nowait(
        compressed(make_batch([b"a", b"b"], timestamps=[NOW - 9, NOW - 5]), codec)
    )
    assert result.log_append_time_ms == -1
    stored = content(partition.read(0, 1000, Isolation.READ_UNCOMMITTED))
    header = parse_header(stored)
    assert not header.is_append_time
    assert [record.timestamp for record in iter_records(stored, header)] == [NOW - 9, NOW - 5]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_append_time_replaces_what_the_client_said(codec: int) -> None:
    clock = FakeClock()
    partition = open_partition(config=LOG_APPEND_TIME, clock=clock)
    clock.advance(1234)
    result = partition.append_nowait(compressed(make_batch([b"a", b"b"], timestamps=[5, 7]), codec))
    assert result == AppendResult(0, 1, NOW + 1234)
    stored = content(partition.read(0, 1000, Isolation.READ_UNCOMMITTED))
    header = parse_header(stored)
    assert verify_crc(stored, header)
    assert header.max_timestamp == NOW + 1234
    assert header.codec == codec
    assert [record.timestamp for record in iter_records(stored, header)] == [NOW + 1234] * 2
    assert partition.store.segments()[0].max_timestamp == NOW + 1234


TEN_DAYS_MS = 10 * 24 * 3_600_000


def stored_header(partition: UnifiedLog) -> BatchHeader:
    """The header of the first batch, whose CRC is right."""
    stored = content(partition.read(0, 1000, Isolation.READ_UNCOMMITTED))
    header = parse_header(stored)
    assert verify_crc(stored, header)
    return header


WRONG_MAX = [NOW - 10**9, NOW + 50, NOW + TEN_DAYS_MS, -1, -(2**63), 2**63 - 1]


@pytest.mark.parametrize("wrong", WRONG_MAX)
@pytest.mark.parametrize("codec", range(5))
async def test_append_sets_max_timestamp_from_the_records(
    codec: int, wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = changed(
        compressed(make_batch([b"a"] * 3, timestamps=[NOW - 9, NOW - 5, NOW - 7]), codec), max_timestamp=wrong
    )
    at_once, in_steps = open_partition(), open_partition()
    at_once.append_nowait(bytearray(batch))
    monkeypatch.setattr(record_checks, "FIRST_TURN_SECONDS", 0)
    monkeypatch.setattr(checking, "RECORDS_PER_STEP", 2)
    monkeypatch.setattr(validation, "AT_ONCE_RECORDS", 2)
    appending = in_steps.append_as_leader(batch)
    assert not isinstance(appending, AppendResult)
    await appending
    for partition in (at_once, in_steps):
        assert stored_header(partition).max_timestamp == NOW - 5
        assert partition.store.segments()[0].max_timestamp == NOW - 5


@pytest.mark.parametrize("codec", range(5))
def test_append_refuses_records_far_ahead_whatever_max_timestamp_the_header_has(codec: int) -> None:
    partition = open_partition()
    ahead = make_batch([b"a"] * 3, timestamps=[NOW, NOW + TEN_DAYS_MS, NOW])
    with pytest.raises(InvalidTimestamp) as error:
        partition.append_nowait(changed(compressed(ahead, codec), max_timestamp=NOW))
    assert [record.batch_index for record in error.value.record_errors] == [1]
    assert partition.log_end_offset == 0


def test_append_time_does_not_hide_what_the_records_say() -> None:
    """The flag is taken away, and then the records' own timestamps count."""
    partition = open_partition()
    ahead = compressed(make_batch([b"a"] * 2, timestamps=[NOW, NOW + TEN_DAYS_MS]), 4)
    with pytest.raises(InvalidTimestamp):
        partition.append_nowait(changed(ahead, max_timestamp=NOW, attributes=4 | TIMESTAMP_TYPE_BIT))


def test_append_time_lets_any_client_clock_pass() -> None:
    partition = open_partition(config=LOG_APPEND_TIME)
    partition.append_nowait(make_batch(timestamps=NOW + 10**12))
    partition.append_nowait(make_batch(timestamps=-1))
    assert partition.log_end_offset == 2


def test_append_refusing_a_timestamp_changes_neither_log_nor_producers() -> None:
    partition = open_partition()
    with pytest.raises(InvalidTimestamp):
        partition.append_nowait(
            make_batch(timestamps=NOW + 3_600_001, producer_id=1, producer_epoch=0, base_sequence=0)
        )
    assert partition.log_end_offset == 0
    assert partition.producers.entries == {}


def test_the_limits_follow_the_clock() -> None:
    clock = FakeClock()
    partition = open_partition(clock=clock)
    ahead = make_batch(timestamps=NOW + 3_600_001)
    with pytest.raises(InvalidTimestamp):
        partition.append_nowait(ahead)
    clock.advance(1)
    partition.append_nowait(ahead)


def test_a_client_cannot_make_its_batch_append_time() -> None:
    """The flag is the broker's: with it, one number of the client's would stand for all records' times."""
    partition = open_partition()
    batch = make_batch([b"a", b"b"], timestamps=[NOW - 9, NOW - 5])
    partition.append_nowait(changed(batch, attributes=TIMESTAMP_TYPE_BIT))
    stored = content(partition.read(0, 1000, Isolation.READ_UNCOMMITTED))
    header = parse_header(stored)
    assert verify_crc(stored, header)
    assert [record.timestamp for record in iter_records(stored, header)] == [NOW - 9, NOW - 5]


def test_a_retry_is_answered_with_the_append_time_it_got() -> None:
    clock = FakeClock()
    partition = open_partition(config=LOG_APPEND_TIME, clock=clock)

    def batch() -> bytearray:
        return make_batch(timestamps=5, producer_id=1, producer_epoch=0, base_sequence=0)

    first = partition.append_nowait(batch())
    clock.advance(1000)
    assert partition.append_nowait(batch()) == first == AppendResult(0, 0, NOW)


def test_a_retry_in_a_topic_of_create_time_has_no_append_time() -> None:
    partition = open_partition()
    for _ in range(2):
        result = partition.append_nowait(make_batch(producer_id=1, producer_epoch=0, base_sequence=0))
        assert result == AppendResult(0, 0, -1)

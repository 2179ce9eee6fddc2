"""Every refusal of a client's batch, each with its own error, and what is let through."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import attrs
import pytest

from tests.tables import for_each
from tidelog.kernel.config import Config, TopicConfig, topic_config
from tidelog.kernel.errors import (
    BrokerError,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompression,
    UnsupportedMessageFormat,
)
from tidelog.kernel.log.validation import (
    PartitionConfig,
    validate_batch,
    validate_in_steps,
)
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.records.batch import (
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    parse_header,
)
from tidelog.kernel.records.checking import MAX_RECORD_ERRORS
from tidelog.kernel.testing import make_batch

from .parts import batch_of, changed, compressed

NOW = 1_700_000_000_000


def with_byte(at: int, value: int) -> bytearray:
    """A batch of three with one byte replaced, its CRC as it was."""
    batch = batch_of(3)
    batch[at] = value
    return batch


def with_length(length: int) -> bytearray:
    """A batch of three whose length field says something else."""
    batch = batch_of(3)
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    return batch


REFUSED: dict[str, tuple[Callable[[], bytearray], type[BrokerError], str]] = {
    "no bytes": (bytearray, InvalidRecord, "0 bytes cannot hold"),
    "half a header": (lambda: batch_of(3)[:40], InvalidRecord, "40 bytes cannot hold"),
    "a header but for a byte": (lambda: batch_of(3)[: HEADER_BYTES - 1], InvalidRecord, "60 bytes"),
    "cut by a byte": (lambda: batch_of(3)[:-1], InvalidRecord, "length field says"),
    "a byte too many": (lambda: batch_of(3) + b"\0", InvalidRecord, "1 bytes follow"),
    "two batches": (lambda: batch_of(3) + batch_of(1), InvalidRecord, "one batch a partition"),
    "a byte too many after a changed record": (lambda: with_byte(-1, 99) + b"\0", CorruptBatch, "CRC-32C"),
    "a length below the header's": (lambda: with_length(48), CorruptBatch, "length field says 60"),
    "the length of a header": (lambda: with_length(HEADER_BYTES - 12), CorruptBatch, "CRC-32C"),
    "a negative length": (lambda: with_length(-1), CorruptBatch, "length field says 11"),
    "the lowest length": (lambda: with_length(-(2**31)), CorruptBatch, "length field says -"),
    "the highest length": (lambda: with_length(2**31 - 1), InvalidRecord, "length field says 2147483659"),
    "format 0": (lambda: with_byte(16, 0), UnsupportedMessageFormat, "message format 0"),
    "format 1": (lambda: with_byte(16, 1), UnsupportedMessageFormat, "message format 1"),
    "format 3": (lambda: with_byte(16, 3), CorruptBatch, "message format 3"),
    "format 3 without records": (
        lambda: with_byte(16, 3)[:HEADER_BYTES],
        CorruptBatch,
        "message format 3",
    ),
    "a wrong CRC": (lambda: with_byte(17, 99), CorruptBatch, "CRC-32C"),
    "a changed record": (lambda: with_byte(-1, 99), CorruptBatch, "CRC-32C"),
    "no records": (
        lambda: changed(make_batch([]), last_offset_delta=0),
        InvalidRecord,
        "0 records cannot be appended",
    ),
    "a negative count": (lambda: changed(batch_of(3), record_count=-1), InvalidRecord, "-1 records"),
    "a delta above the count": (
        lambda: changed(batch_of(3), last_offset_delta=3),
        InvalidRecord,
        "last offset delta 3",
    ),
    "a delta below the count": (
        lambda: changed(batch_of(3), last_offset_delta=1),
        InvalidRecord,
        "last offset delta 1",
    ),
    "a negative delta": (
        lambda: changed(batch_of(3), last_offset_delta=-1),
        InvalidRecord,
        "last offset delta -1",
    ),
    "more records than bytes": (
        lambda: changed(batch_of(3), last_offset_delta=2**31 - 2, record_count=2**31 - 1),
        InvalidRecord,
        "2147483647 records cannot be in",
    ),
    "one record more than the bytes can hold": (
        lambda: changed(make_batch([None] * 7), last_offset_delta=7, record_count=8),
        InvalidRecord,
        "8 records cannot be in 49 bytes",
    ),
    "a base offset of its own": (lambda: changed(batch_of(3), base_offset=7), InvalidRecord, "at 7"),
    "a control batch": (lambda: make_batch(control=True), InvalidRecord, "control batches"),
    "a producer without a sequence": (
        lambda: make_batch(producer_id=1, producer_epoch=0),
        InvalidRecord,
        "base sequence -1",
    ),
    "a producer with a negative sequence": (
        lambda: make_batch(producer_id=1, producer_epoch=0, base_sequence=-2),
        InvalidRecord,
        "base sequence -2",
    ),
    "codec 5": (lambda: changed(batch_of(3), attributes=5), UnsupportedCompression, "codec 5"),
    "codec 6": (lambda: changed(batch_of(3), attributes=6), UnsupportedCompression, "codec 6"),
    "codec 7": (lambda: changed(batch_of(3), attributes=7), UnsupportedCompression, "codec 7"),
}


@for_each(("make", "error", "said"), REFUSED.values(), ids=REFUSED)
def test_validate_batch_refuses_invalid_batches(
    make: Callable[[], bytearray], error: type[BrokerError], said: str
) -> None:
    with pytest.raises(error, match=said):
        validate_batch(make(), PartitionConfig())


ACCEPTED: dict[str, Callable[[], bytearray]] = {
    "one record": lambda: batch_of(1),
    "many records": lambda: batch_of(1000),
    "null values": lambda: make_batch([None, None]),
    "a producer's first batch": lambda: make_batch(producer_id=0, producer_epoch=0, base_sequence=0),
    "the last sequence": lambda: make_batch(producer_id=1, producer_epoch=0, base_sequence=2**31 - 1),
    "gzip": lambda: compressed(batch_of(100), 1),
    "snappy": lambda: compressed(batch_of(100), 2),
    "lz4": lambda: compressed(batch_of(100), 3),
    "zstd": lambda: compressed(batch_of(100), 4),
    "unused attributes": lambda: changed(batch_of(1), attributes=0x4000),
    "some leader epoch": lambda: make_batch(leader_epoch=2**31 - 1),
}


@for_each("make", ACCEPTED.values(), ids=ACCEPTED)
def test_validate_batch_accepts_valid_batches(make: Callable[[], bytearray]) -> None:
    batch = make()
    assert validate_batch(batch, PartitionConfig()) == parse_header(batch)
    assert validate_batch(memoryview(batch), PartitionConfig()) == parse_header(batch)


def test_validate_batch_enforces_max_message_bytes() -> None:
    batch = batch_of(10)
    validate_batch(batch, PartitionConfig(max_message_bytes=len(batch)))
    with pytest.raises(
        MessageTooLarge, match=rf"{len(batch)} bytes exceeds max.message.bytes={len(batch) - 1}"
    ):
        validate_batch(batch, PartitionConfig(max_message_bytes=len(batch) - 1))


def test_validate_batch_checks_the_size_before_the_crc() -> None:
    """A batch that is too large is not worth a CRC over it."""
    with pytest.raises(MessageTooLarge):
        validate_batch(with_byte(17, 99), PartitionConfig(max_message_bytes=10))


def checked(batch: bytearray, header: BatchHeader, config: PartitionConfig) -> int:
    """Take all steps."""
    return run_to_end(validate_in_steps(batch, header, config, NOW))


LIMITS = PartitionConfig(message_timestamp_before_max_ms=5000, message_timestamp_after_max_ms=1000)


@for_each("codec", range(5))
@for_each(
    ("times", "at_fault"),
    [
        ([NOW, NOW - 5000, NOW + 1000], []),
        ([NOW, -1, NOW], []),
        ([-1, -1], []),
        ([-1, NOW, -1, NOW + 1001], [3]),
        ([NOW, NOW + 1001, NOW, NOW - 5001], [1, 3]),
        ([NOW + 1001] * 3, [0, 1, 2]),
        ([NOW - 5001, NOW], [0]),
        ([0, 2**40, NOW], [0, 1]),
        ([-2, -1], [0]),
    ],
)
def test_validate_in_steps_compares_each_timestamp_with_the_limits(
    codec: int, times: list[int], at_fault: list[int]
) -> None:
    batch = compressed(make_batch([b"v"] * len(times), timestamps=times), codec)
    honest = parse_header(batch)
    # What the header says is of no account.
    for max_timestamp in (honest.max_timestamp, NOW, -1):
        header = honest._replace(max_timestamp=max_timestamp)
        if not at_fault:
            assert checked(batch, header, LIMITS) == max(times)
            continue
        with pytest.raises(InvalidTimestamp, match=r"message\.timestamp\.before\.max\.ms") as error:
            checked(batch, header, LIMITS)
        assert [record.batch_index for record in error.value.record_errors] == at_fault


@for_each("codec", range(5))
def test_validate_in_steps_of_log_append_time_accepts_any_timestamp(codec: int) -> None:
    """The broker's clock replaces them, so that a client's wrong one is of no account."""
    config = attrs.evolve(LIMITS, message_timestamp_type="LogAppendTime")
    batch = compressed(make_batch([b"v"] * 3, timestamps=[NOW, 0, 2**62]), codec)
    assert checked(batch, parse_header(batch), config) == 2**62


def test_validate_in_steps_with_default_limits_allows_the_past_and_an_hour_ahead() -> None:
    for ahead_ms, is_taken in ((3_600_000, True), (3_600_001, False)):
        batch = compressed(make_batch(timestamps=NOW + ahead_ms), 3)
        with nullcontext() if is_taken else pytest.raises(InvalidTimestamp):
            checked(batch, parse_header(batch), PartitionConfig())


def test_validate_batch_refuses_a_clients_append_time_in_a_log_append_time_topic() -> None:
    batch = changed(batch_of(3), attributes=TIMESTAMP_TYPE_BIT)
    validate_batch(batch, PartitionConfig())
    with pytest.raises(InvalidTimestamp, match="LogAppendTime") as error:
        validate_batch(batch, PartitionConfig(message_timestamp_type="LogAppendTime"))
    assert [record.batch_index for record in error.value.record_errors] == [0, 1, 2]


def test_validate_batch_names_a_limited_number_of_records_with_a_clients_append_time() -> None:
    batch = changed(batch_of(MAX_RECORD_ERRORS + 1), attributes=TIMESTAMP_TYPE_BIT)
    with pytest.raises(InvalidTimestamp) as error:
        validate_batch(batch, PartitionConfig(message_timestamp_type="LogAppendTime"))
    assert len(error.value.record_errors) == MAX_RECORD_ERRORS


def test_partition_config_has_the_defaults_of_a_topic_that_sets_nothing() -> None:
    assert PartitionConfig.of(TopicConfig()) == PartitionConfig()
    assert PartitionConfig.of(Config.from_mapping({}).default_topic_config) == PartitionConfig()


@pytest.mark.parametrize(
    "field",
    [
        field.name
        for field in attrs.fields(PartitionConfig)
        if field.name not in ("is_compacted", "compression")
    ],
)
def test_partition_config_takes_each_value_from_its_key(field: str) -> None:
    changed = PartitionConfig.of(TopicConfig({field.replace("_", "."): "other"}))
    assert attrs.asdict(changed) == {**attrs.asdict(PartitionConfig()), field: "other"}


@pytest.mark.parametrize(
    ("policy", "compacted"),
    [("delete", False), ("compact", True), ("compact,delete", True), ("delete,compact", True), ("", False)],
)
def test_partition_config_is_compacted_if_cleanup_policy_has_compact(policy: str, compacted: bool) -> None:
    config = Config.from_mapping({})
    assert PartitionConfig.of(topic_config(config, {"cleanup.policy": policy})).is_compacted is compacted

"""`compression.type`: batches of another codec are recompressed, those of the same one keep their bytes."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator

import pytest
import trio
import trio.lowlevel
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.log.parts import append_as_client, changed, compressed, open_partition, sent
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.config.keys import (
    COMPRESSION_TYPE,
    MAX_MESSAGE_BYTES,
    MESSAGE_TIMESTAMP_TYPE,
)
from tidelog.kernel.errors import InvalidRecord, MessageTooLarge, UnsupportedCompression
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.records import compression
from tidelog.kernel.records.batch import HEADER_BYTES, Buffer, parse_header, verify_crc
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.seams.partition import AppendOrigin, AppendResult, Isolation
from tidelog.kernel.seams.storage import region_bytes
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.plugins.compression.gzip import GzipCodec
from tidelog.plugins.compression.keys import TOPIC_GZIP_LEVEL

CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def topic(**settings: object) -> UnifiedLog:
    """A partition whose topic has these settings."""
    names = {"type": COMPRESSION_TYPE, "most": MAX_MESSAGE_BYTES, "times": MESSAGE_TIMESTAMP_TYPE}
    return open_partition(config=TopicConfig({names[name].name: value for name, value in settings.items()}))


def stored(partition: UnifiedLog) -> bytes:
    """All bytes of the log."""
    found = partition.read(0, 1 << 30, Isolation.READ_UNCOMMITTED)
    return b"".join(map(region_bytes, found.regions))


@pytest.mark.parametrize("source", CODECS.values())
@pytest.mark.parametrize("target", CODECS)
async def test_append_recompresses_unless_the_codec_is_that_of_the_topic(source: int, target: str) -> None:
    partition = topic(type=target)
    batch = sent(7, 0, 0, 100)
    if source:
        batch = compressed(batch, source)
    result = await append_as_client(partition, bytearray(batch))
    assert (result.base_offset, result.last_offset) == (0, 99)
    found = stored(partition)
    header = parse_header(found)
    assert header.codec == CODECS[target]
    assert verify_crc(found, header)
    assert [record.value for record in iter_records(found, header)] == [b"value"] * 100
    assert (header.producer_id, header.base_sequence, header.last_sequence) == (7, 0, 99)
    if source == CODECS[target]:
        assert found[HEADER_BYTES:] == batch[HEADER_BYTES:]
        assert header.crc == parse_header(batch).crc


@pytest.mark.parametrize("codec", CODECS.values())
async def test_append_with_the_codec_of_the_producer_keeps_all_bytes(codec: int) -> None:
    partition, batch = topic(type="producer"), make_batch([b"value"] * 50)
    if codec:
        batch = compressed(batch, codec)
    await append_as_client(partition, bytearray(batch))
    assert stored(partition)[HEADER_BYTES:] == batch[HEADER_BYTES:]


async def test_append_at_once_stores_what_already_has_the_codec() -> None:
    partition = topic(type="lz4")
    assert isinstance(partition.append_as_leader(compressed(make_batch(), 3)), AppendResult)
    assert not isinstance(partition.append_as_leader(make_batch()), AppendResult)
    assert partition.log_end_offset == 1, "an append that is not awaited does nothing"


def test_append_nowait_recompresses_at_once_and_leaves_batches_of_the_coordinator() -> None:
    partition = topic(type="zstd")
    partition.append_nowait(make_batch())
    partition.append_nowait(make_batch(), origin=AppendOrigin.COORDINATOR)
    first = parse_header(stored(partition))
    assert (first.codec, parse_header(stored(partition), first.size).codec) == (4, 0)


async def test_append_with_log_append_time_stamps_the_recompressed_batch() -> None:
    partition = topic(type="gzip", times="LogAppendTime")
    result = await append_as_client(partition, make_batch([b"value"] * 3, timestamps=5))
    header = parse_header(stored(partition))
    assert (header.codec, header.is_append_time) == (1, True)
    assert result.log_append_time_ms == header.max_timestamp == FakeClock().now_ms
    assert verify_crc(stored(partition), header)


async def test_append_refuses_what_is_too_large_only_when_it_is_recompressed() -> None:
    partition = topic(type="uncompressed", most=2000)
    with pytest.raises(MessageTooLarge, match=r"max\.message\.bytes=2000 when it is recompressed"):
        await append_as_client(partition, compressed(make_batch([bytes(5000)]), 1))
    assert partition.log_end_offset == 0
    await append_as_client(partition, compressed(make_batch([bytes(1500)]), 1))
    assert parse_header(stored(partition)).size > 1500


async def test_append_checks_the_records_before_it_recompresses() -> None:
    for batch in (make_batch([b"value"] * 20), compressed(make_batch([b"value"] * 20), 3)):
        partition = topic(type="gzip")
        with pytest.raises(InvalidRecord):
            await append_as_client(partition, changed(batch, record_count=19, last_offset_delta=18))
        assert partition.log_end_offset == 0


async def test_append_with_a_codec_that_no_plugin_offers_names_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compression, "_codecs", {1: GzipCodec()})
    monkeypatch.setattr(compression, "_offers", [])
    partition = topic(type="zstd")
    with pytest.raises(UnsupportedCompression, match=r"compression\.type=zstd, but no plugin offers"):
        await append_as_client(partition, make_batch())


async def test_a_duplicate_is_found_before_it_is_recompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = topic(type="gzip")
    first = await append_as_client(partition, sent(7, 0, 0))
    monkeypatch.setattr(compression, "_codecs", {})
    monkeypatch.setattr(compression, "_offers", [])
    assert partition.append_as_leader(sent(7, 0, 0)) == first


async def test_a_changed_level_applies_to_the_next_batch() -> None:
    choose = random.Random(5)
    text = b" ".join(choose.choice([b"tide", b"ebb", b"flood", b"neap", b"spring"]) for _ in range(20_000))
    sizes = []
    for level in (1, 9):
        partition = open_partition(
            config=TopicConfig({COMPRESSION_TYPE.name: "gzip", TOPIC_GZIP_LEVEL.name: level})
        )
        await append_as_client(partition, make_batch([text]))
        sizes.append(parse_header(stored(partition)).size)
    assert sizes[0] > sizes[1] * 1.05


class RecordingCodec(GzipCodec):
    """gzip that records in which threads it works."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def pack(self, pieces: Iterable[Buffer], level: int | None) -> Iterator[bytes]:
        self.threads.add(threading.get_ident())
        return super().pack(pieces, level)


async def test_append_compresses_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = RecordingCodec()
    monkeypatch.setattr(compression, "_codecs", {1: codec})
    partition = topic(type="gzip")
    await append_as_client(partition, make_batch())
    assert codec.threads
    assert threading.get_ident() not in codec.threads
    assert partition.unpacking.checks.borrowed_tokens == 0


async def test_appends_of_others_are_not_held_up_by_a_large_recompression() -> None:
    """The event loop turns while megabytes are compressed at the slowest level."""
    partition, other = topic(type="zstd", most=1 << 26), topic()
    content = random.Random(3).randbytes(3 << 20)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(append_as_client, partition, make_batch([content]))
        while not partition.log_end_offset:
            other.append_nowait(make_batch())
            await trio.lowlevel.checkpoint()
    assert other.log_end_offset > 1


@given(
    values=st.lists(st.binary(max_size=300), min_size=1, max_size=20),
    codecs=st.lists(st.sampled_from(sorted(CODECS)), min_size=1, max_size=4),
)
def test_recompression_back_and_forth_changes_no_record(values: list[bytes], codecs: list[str]) -> None:
    batch = make_batch(values)
    for name in codecs:
        partition = topic(type=name)
        partition.append_nowait(bytearray(batch))
        batch = bytearray(stored(partition))
    header = parse_header(batch)
    assert [record.value for record in iter_records(batch, header)] == values

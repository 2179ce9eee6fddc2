"""Records of compressed batches and of compacted topics are looked at before they are appended."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import InvalidRecord, MessageTooLarge
from tidelog.kernel.partition import Partition, record_checks, validation
from tidelog.kernel.partition.record_checks import RecordChecks
from tidelog.kernel.partition.validation import QUICK_BYTES, QUICK_RECORDS, ChecksTakeLong
from tidelog.kernel.records.batch import pack_batch, parse_header
from tidelog.kernel.testing import make_batch

from .parts import batch_of, changed, compressed, open_partition, sent

CODECS = pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=["gzip", "snappy", "lz4", "zstd"])
COMPACTED = TopicConfig(cleanup_policy=("compact",))
SMALL = 3
LARGE = QUICK_RECORDS + 1


def miscounted(codec: int, count: int = SMALL) -> bytearray:
    """A batch that tells of one record more than it has."""
    batch = compressed(batch_of(count), codec)
    return changed(batch, record_count=count + 1, last_offset_delta=count)


def bomb(codec: int, size: int) -> bytearray:
    """A batch that is small and unpacks to `size` bytes."""
    return compressed(make_batch([bytes(size)]), codec)


REFUSED: dict[str, Callable[[int], bytearray]] = {
    "a record too few": miscounted,
    "many, and one too few": lambda codec: miscounted(codec, LARGE),
    "nothing of that codec": lambda codec: pack_batch(
        parse_header(batch_of(1))._replace(attributes=codec), b"nonsense"
    ),
}


@CODECS
@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
async def test_what_is_wrong_inside_is_not_appended(codec: int, make: Callable[[int], bytearray]) -> None:
    partition = open_partition()
    with pytest.raises(InvalidRecord):
        partition.append(make(codec))
    with pytest.raises(InvalidRecord):
        await partition.check_records(make(codec))
    assert partition.log_end_offset == 0


@CODECS
async def test_many_records_are_left_to_a_thread(codec: int) -> None:
    partition = open_partition()
    batch = compressed(batch_of(LARGE), codec)
    with pytest.raises(ChecksTakeLong):
        partition.append(batch, checks=RecordChecks.QUICK)
    assert partition.log_end_offset == 0
    await partition.check_records(batch)
    assert partition.append(batch, checks=RecordChecks.DONE).last_offset == LARGE - 1


@CODECS
def test_a_bomb_is_not_unpacked_on_the_loop(codec: int) -> None:
    partition = open_partition()
    partition.append(bomb(codec, QUICK_BYTES // 2), checks=RecordChecks.QUICK)
    with pytest.raises(ChecksTakeLong):
        partition.append(bomb(codec, QUICK_BYTES * 2), checks=RecordChecks.QUICK)


@CODECS
async def test_a_bomb_is_refused(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_RECORDS_BYTES", 1_000_000)
    partition = open_partition()
    await partition.check_records(bomb(codec, 900_000))
    with pytest.raises(MessageTooLarge, match="unpack to more than 1000000 bytes"):
        await partition.check_records(bomb(codec, 1_100_000))


@pytest.mark.parametrize("codec", range(5))
def test_compacted_topics_take_no_record_without_a_key(codec: int) -> None:
    partition = open_partition(config=COMPACTED)
    keyed = make_batch([b"a", None], keys=[b"k", b""])
    assert partition.append(compressed(keyed, codec)).last_offset == 1
    with pytest.raises(InvalidRecord, match="record 1 has no key"):
        partition.append(compressed(make_batch([b"a", b"b"], keys=[b"k", None]), codec))
    assert open_partition().append(compressed(batch_of(1), codec)).base_offset == 0


def test_a_retry_is_answered_without_another_look() -> None:
    partition = open_partition()
    batch = compressed(sent(7, 0, 0, LARGE), 4)
    partition.append(bytearray(batch))
    assert partition.append(batch, checks=RecordChecks.QUICK).base_offset == 0


async def test_the_loop_goes_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    went_on = threading.Event()
    monkeypatch.setattr(record_checks, "_let_others_go_on", lambda: went_on.wait(5))
    partition: Partition = open_partition()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partition.check_records, compressed(batch_of(LARGE), 4))
        await wait_all_tasks_blocked()
        went_on.set()

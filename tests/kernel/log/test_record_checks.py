"""Records are looked at before they are appended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import lz4.frame
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.deadlines import DEADLINE_S
from tidelog.kernel import pace
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import InvalidRecord, InvalidTransactionState, MessageTooLarge
from tidelog.kernel.log import AppendResult, record_checks, validation
from tidelog.kernel.log.memory_budget import Unpacking
from tidelog.kernel.log.record_checks import LOOP_MEMORY_BYTES
from tidelog.kernel.log.validation import (
    AT_ONCE_BYTES,
    PartitionConfig,
    validate_in_steps,
)
from tidelog.kernel.records.batch import HEADER_BYTES, TRANSACTIONAL_BIT, pack_batch, parse_header
from tidelog.kernel.records.checking import HEADERS_PER_STEP, RECORDS_PER_STEP
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.varint import write_varlong
from tidelog.kernel.seams.coordination.transactions import FIRST_TRANSACTION_VERSION, NO_TRANSACTION
from tidelog.kernel.testing import make_batch
from tidelog.plugins.compression.snappy import EMPTY_BLOCKS_PER_STEP, XERIAL_HEAD_BYTES

from .parts import append_as_client, batch_of, changed, check_in_steps, compressed, open_partition, sent

SNAPPY, LZ4, ZSTD = 2, 3, 4
PACKED = pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=["gzip", "snappy", "lz4", "zstd"])
CODECS = pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])
COMPACTED = TopicConfig({"cleanup.policy": ("compact",)})
SMALL = 3
LARGE = RECORDS_PER_STEP + 1


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
    "nothing of that codec, or of none": lambda codec: pack_batch(
        parse_header(batch_of(1))._replace(attributes=codec), b"nonsense"
    ),
}


@CODECS
@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
async def test_append_refuses_invalid_records(codec: int, make: Callable[[int], bytearray]) -> None:
    partition = open_partition()
    with pytest.raises(InvalidRecord):
        partition.append_nowait(make(codec))
    with pytest.raises(InvalidRecord):
        await append_as_client(partition, make(codec))
    with pytest.raises(InvalidRecord):
        await check_in_steps(partition, make(codec))
    assert partition.log_end_offset == 0


@pytest.fixture
def short_first_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first turn of a single step, and nothing in one piece."""
    monkeypatch.setattr(record_checks, "FIRST_TURN_SECONDS", 0)
    monkeypatch.setattr(validation, "AT_ONCE_RECORDS", 0)


@CODECS
@pytest.mark.usefixtures("short_first_turn")
async def test_append_of_many_records_is_an_awaitable(codec: int) -> None:
    partition = open_partition()
    appending = partition.append_as_leader(compressed(batch_of(LARGE), codec))
    assert not isinstance(appending, AppendResult)
    assert partition.log_end_offset == 0
    assert (await appending).last_offset == LARGE - 1
    assert partition.log_end_offset == LARGE


@pytest.mark.usefixtures("short_first_turn")
async def test_append_of_many_records_does_nothing_unless_it_is_awaited() -> None:
    partition = open_partition()
    partition.append_as_leader(compressed(batch_of(LARGE), ZSTD))
    assert (await append_as_client(partition, batch_of(1))).base_offset == 0


@pytest.mark.parametrize(
    "versions",
    [[NO_TRANSACTION], [FIRST_TRANSACTION_VERSION, NO_TRANSACTION]],
    ids=["at once", "after its records"],
)
@pytest.mark.usefixtures("short_first_turn")
async def test_append_verifies_a_transactional_batch_right_before_it_is_written(versions: list[int]) -> None:
    """A transaction may have ended while the records were checked."""
    partition = open_partition()
    header = parse_header(sent(7, 0, 0, LARGE))
    batch = changed(sent(7, 0, 0, LARGE), attributes=header.attributes | TRANSACTIONAL_BIT)
    answers = iter(versions)
    with pytest.raises(InvalidTransactionState):
        await append_as_client(partition, compressed(batch, ZSTD), lambda: next(answers))
    assert list(answers) == []
    assert partition.log_end_offset == 0


@PACKED
@pytest.mark.usefixtures("short_first_turn")
def test_append_does_not_unpack_a_bomb_in_one_turn(codec: int) -> None:
    appending = open_partition().append_as_leader(bomb(codec, 2 * LOOP_MEMORY_BYTES))
    assert not isinstance(appending, AppendResult)


@CODECS
def test_append_checks_records_for_a_turn(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_checks, "FIRST_TURN_SECONDS", 60.0)
    partition = open_partition()
    assert partition.append_as_leader(compressed(batch_of(10 * LARGE), codec)) == AppendResult(
        0, 10 * LARGE - 1, -1
    )


@CODECS
@pytest.mark.parametrize(("value_bytes", "is_at_once"), [(1_048_000, True), (AT_ONCE_BYTES, False)])
def test_append_checks_a_batch_of_a_megabyte_in_one_piece(
    codec: int, value_bytes: int, is_at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client measures it so before it compresses it; no step is short enough to end in."""
    monkeypatch.setattr(record_checks, "FIRST_TURN_SECONDS", 0)
    config = TopicConfig({"max.message.bytes": 2 * AT_ONCE_BYTES})
    batch = compressed(make_batch([bytes(value_bytes // 256)] * 256), codec)
    assert isinstance(open_partition(config=config).append_as_leader(batch), AppendResult) is is_at_once


@PACKED
async def test_check_records_refuses_a_bomb(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_RECORDS_BYTES", 1_000_000)
    partition = open_partition()
    small, large = bomb(codec, 900_000), bomb(codec, 1_100_000)
    await check_in_steps(partition, small)
    with pytest.raises(MessageTooLarge, match="unpack to more than 1000000 bytes"):
        await check_in_steps(partition, large)


@pytest.mark.parametrize("codec", range(5))
def test_append_refuses_records_without_a_key_in_a_compacted_topic(codec: int) -> None:
    partition = open_partition(config=COMPACTED)
    keyed = make_batch([b"a", None], keys=[b"k", b""])
    assert partition.append_nowait(compressed(keyed, codec)).last_offset == 1
    with pytest.raises(InvalidRecord, match="record 1: there is no key"):
        partition.append_nowait(compressed(make_batch([b"a", b"b"], keys=[b"k", None]), codec))
    assert open_partition().append_nowait(compressed(batch_of(1), codec)).base_offset == 0


def varint(number: int) -> bytes:
    out = bytearray()
    write_varlong(out, number)
    return bytes(out)


def with_headers(count: int) -> bytes:
    """One record with a key and so many headers that are empty."""
    body = b"\0\0\0\x02k\x02v" + varint(count) + b"\0\0" * count
    return varint(len(body)) + body


def of_one_record(packed: bytes, codec: int) -> bytearray:
    return pack_batch(parse_header(make_batch())._replace(attributes=codec), packed)


def empty_snappy_blocks(count: int) -> bytes:
    """What unpacks to nothing at length, and then to a record."""
    packed = compress(SNAPPY, with_headers(0))
    return packed[:XERIAL_HEAD_BYTES] + b"\0\0\0\x01\0" * count + packed[XERIAL_HEAD_BYTES:]


LONG_WORK: dict[str, tuple[bytes, int, int]] = {
    "headers, not packed": (with_headers(30_000), 0, 30_000 // HEADERS_PER_STEP),
    "headers in zstd": (compress(ZSTD, with_headers(30_000)), ZSTD, 30_000 // HEADERS_PER_STEP),
    "headers in gzip": (compress(1, with_headers(30_000)), 1, 30_000 // HEADERS_PER_STEP),
    "snappy blocks of nothing": (empty_snappy_blocks(50_000), SNAPPY, 50_000 // EMPTY_BLOCKS_PER_STEP),
    "zstd blocks of nothing": (
        b"\x28\xb5\x2f\xfd\0\x58" + b"\0\0\0" * 50_000 + compress(ZSTD, with_headers(0))[6:],
        ZSTD,
        50_000 // 22,
    ),
}
"""Packed records that are few and small, and for how many steps of work they are."""


@pytest.mark.parametrize(("packed", "codec", "least_steps"), LONG_WORK.values(), ids=LONG_WORK)
@pytest.mark.usefixtures("short_first_turn")
async def test_check_records_takes_many_steps_for_few_records_that_are_much_work(
    packed: bytes, codec: int, least_steps: int
) -> None:
    batch = of_one_record(packed, codec)
    header = parse_header(batch)
    assert (
        sum(1 for _ in validate_in_steps(batch, header, PartitionConfig.of(COMPACTED), header.max_timestamp))
        >= least_steps
    )
    partition = open_partition(config=COMPACTED)
    appending = partition.append_as_leader(batch)
    assert not isinstance(appending, AppendResult)
    assert (await appending).last_offset == 0


def test_append_answers_a_retry_without_checking_its_records() -> None:
    partition = open_partition()
    batch = compressed(sent(7, 0, 0, LARGE), 4)
    partition.append_nowait(bytearray(batch))
    retried = partition.append_as_leader(batch)
    assert isinstance(retried, AppendResult)
    assert retried.base_offset == 0


@pytest.fixture
def steps_in_threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each step that a thread takes."""
    steps: list[int] = []
    monkeypatch.setattr(record_checks, "ThreadPace", partial(pace.ThreadPace, hold_seconds=0.0))
    monkeypatch.setattr(pace, "yield_interpreter", lambda: steps.append(threading.get_ident()))
    return steps


BUSY_SECONDS = 2 * record_checks.OTHERS_SECONDS


async def be_busy(turns: list[int]) -> None:
    """Take some processor time in every turn of the event loop."""
    while True:
        until = time.thread_time() + BUSY_SECONDS
        while time.thread_time() < until:
            pass
        turns.append(threading.get_ident())
        await trio.lowlevel.checkpoint()


async def test_check_records_runs_on_an_event_loop_that_is_idle(
    monkeypatch: pytest.MonkeyPatch, steps_in_threads: list[int]
) -> None:
    monkeypatch.setattr(record_checks, "OTHERS_SECONDS", 60.0)  # whatever the machine does meanwhile
    batch = compressed(batch_of(5000), ZSTD)
    await check_in_steps(open_partition(), batch)
    assert steps_in_threads == []


@pytest.mark.parametrize(("turn_seconds", "turns"), [(0.0, 1000), (60.0, 1)])
async def test_take_steps_takes_steps_for_a_while_before_other_tasks_get_a_turn(
    turn_seconds: float, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_checks, "OTHERS_SECONDS", 60.0)
    monkeypatch.setattr(record_checks, "TURN_SECONDS", turn_seconds)
    others = 0

    async def count_turns() -> None:
        nonlocal others
        while True:
            others += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count_turns)
        await record_checks.take_steps((None for _ in range(1000)), 0, Unpacking(), on_event_loop=True)
        nursery.cancel_scope.cancel()
    # Whose turn comes first is left to chance.
    assert abs(others - turns) <= 3


async def test_check_records_continues_in_a_thread_when_other_tasks_are_ready(
    steps_in_threads: list[int],
) -> None:
    # More than any machine does in the first turn.
    batch = compressed(batch_of(100 * RECORDS_PER_STEP), ZSTD)
    turns: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(be_busy, turns)
        await check_in_steps(open_partition(), batch)
        nursery.cancel_scope.cancel()
    assert turns
    assert steps_in_threads
    assert set(steps_in_threads).isdisjoint(turns)


async def test_check_records_that_take_much_memory_runs_in_a_thread(steps_in_threads: list[int]) -> None:
    batch = make_batch([bytes(1000)] * 5000)
    blocks = lz4.frame.compress(
        batch[HEADER_BYTES:], block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False
    )
    await check_in_steps(
        open_partition(), pack_batch(parse_header(batch)._replace(attributes=LZ4), bytes(blocks))
    )
    assert threading.get_ident() not in steps_in_threads
    assert len(steps_in_threads) >= 10


async def test_check_records_does_not_block_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    went_on = threading.Event()
    monkeypatch.setattr(record_checks, "ThreadPace", partial(pace.ThreadPace, hold_seconds=0.0))
    monkeypatch.setattr(pace, "yield_interpreter", lambda: went_on.wait(DEADLINE_S))
    batch = compressed(make_batch([bytes(1000)] * 5000), SNAPPY)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(check_in_steps, open_partition(), batch)
        await wait_all_tasks_blocked()
        went_on.set()

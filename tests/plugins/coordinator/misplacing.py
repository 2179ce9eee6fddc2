"""Directories as earlier versions left them: the state of names of a negative hash in the wrong partition."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from tests.deadlines import DEADLINE_S
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import BrokerError, CoordinatorLoadInProgress, GroupIdNotFound
from tidelog.kernel.partition import Isolation
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    FetchedOffsets,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.kernel.seams.coordination.transactions import (
    ProducerIdentity,
    TransactionFilter,
    TransactionState,
)
from tidelog.kernel.seams.partition import AppendOrigin
from tidelog.kernel.seams.storage import TopicPartition, region_bytes
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.coordinator import service
from tidelog.plugins.coordinator.classic_groups.changes import (
    GenerationChange,
    GroupMetadataValue,
)
from tidelog.plugins.coordinator.classic_groups.changes import (
    MemberMetadata as ClassicMember,
)
from tidelog.plugins.coordinator.consumer_groups.group import ResolvedRegex
from tidelog.plugins.coordinator.consumer_groups.group_changes import (
    ConsumerGroupChange,
    EpochChange,
    RegexChange,
    TargetEpochChange,
)
from tidelog.plugins.coordinator.consumer_groups.member import CurrentAssignment, MemberMetadata
from tidelog.plugins.coordinator.consumer_groups.member_changes import (
    CurrentChange,
    MemberChange,
    TargetChange,
)
from tidelog.plugins.coordinator.hashing import java_hash, partition_for
from tidelog.plugins.coordinator.log import StateRecord
from tidelog.plugins.coordinator.log.batches import decode_batches, encode_batch
from tidelog.plugins.coordinator.log.log_image import LogImage
from tidelog.plugins.coordinator.log.misplaced import name_in
from tidelog.plugins.coordinator.transactions import machine
from tidelog.plugins.coordinator.transactions.changes import TransactionChange
from tidelog.plugins.coordinator.transactions.transaction import Transaction

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
LOGS = (OFFSETS, TRANSACTIONS)
COUNT = 5
"""Partitions of both internal topics: 0 and 3 are counterparts, and so are 1 and 2."""
TOPIC = "flights"
TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000
LONG_MS = 900_000


def masked_hash(name: str) -> int:
    """Return the hash as earlier versions had it: without its sign bit."""
    return java_hash(name) & 0x7FFFFFFF


def is_misplaced(name: str) -> bool:
    """Whether earlier versions had the name in another partition."""
    return masked_hash(name) % COUNT != partition_for(name, COUNT)


def names(prefix: str, count: int) -> list[str]:
    """Return names that were in the wrong partition."""
    candidates = (f"{prefix}-{number}" for number in range(1000))
    return [name for name in candidates if is_misplaced(name)][:count]


COMMITTED, CLASSIC, CONSUMER, PENDING, DECIDED, DELETED = names("group", 6)
RIGHT = next(name for name in (f"right-{n}" for n in range(99)) if not is_misplaced(name))
"""A group that was in its right place before."""
EMPTY, OPEN, PREPARED, ABORTING, COMPLETE, GONE = names("producer", 6)
GROUPS = (COMMITTED, CLASSIC, CONSUMER, PENDING, DECIDED, DELETED, RIGHT)
TRANSACTIONAL_IDS = (EMPTY, OPEN, PREPARED, ABORTING, COMPLETE, GONE)

CONSUMER_CHANGES: tuple[ConsumerGroupChange, ...] = (
    MemberChange(
        CONSUMER, "m", MemberMetadata("client", "/127.0.0.1", None, None, frozenset((TOPIC,)), "f.*")
    ),
    EpochChange(CONSUMER, 7, 1),
    RegexChange(CONSUMER, "f.*", ResolvedRegex(frozenset((TOPIC,)), 3, NOW_MS)),
    TargetChange(CONSUMER, "m", {TOPIC_ID: frozenset((0, 1))}),
    TargetEpochChange(CONSUMER, 7, NOW_MS),
    CurrentChange(CONSUMER, "m", CurrentAssignment(7, 6, assigned={TOPIC_ID: {0: 7, 1: 6}})),
)
CONSUMER_RECORDS = [change.to_record() for change in CONSUMER_CHANGES]
CLASSIC_RECORD = GenerationChange(
    CLASSIC,
    GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="member-1",
        current_state_timestamp=NOW_MS,
        members=[
            ClassicMember(
                member_id="member-1",
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout=600_000,
                session_timeout=600_000,
                subscription=bytes.fromhex("0000 00000001 0007 666c6967687473 ffffffff"),
                assignment=bytes.fromhex("0000 00000000 ffffffff"),
            )
        ],
    ),
).to_record()


def settings(data: Path) -> Mapping[str, object]:
    """Return the settings of a broker on that directory."""
    return {
        "storage": "file",
        "log.dirs": str(data),
        "offsets.topic.num.partitions": COUNT,
        "transaction.state.log.num.partitions": COUNT,
        "num.partitions": 3,
    }


@contextmanager
def earlier_version(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Let brokers hash as earlier versions did; they do not look for what is misplaced."""
    with monkeypatch.context() as patch:
        patch.setattr(service, "StateHashes", lambda: masked_hash)
        yield


def log_partition(broker: Broker, topic: str, name: str, *, wrong: bool = False) -> int:
    """Return where a name is."""
    del broker, topic
    return masked_hash(name) % COUNT if wrong else partition_for(name, COUNT)


def write(
    broker: Broker,
    topic: str,
    partition: int,
    records: Sequence[StateRecord],
    timestamp_ms: int = NOW_MS,
    producer: tuple[int, int] | None = None,
) -> None:
    """Append records to an internal topic."""
    broker.topics.get(topic).partitions[partition].append_nowait(
        encode_batch(records, timestamp_ms, producer=producer),
        in_transaction=producer is not None,
        origin=AppendOrigin.COORDINATOR,
    )


async def begin(broker: Broker, name: str, group_id: str | None, place: int) -> ProducerIdentity:
    """Open a transaction with a batch in a partition, and perhaps with offsets of a group."""
    transactions = broker.coordinator.transactions
    producer = await transactions.init_producer_id(name, LONG_MS)
    await transactions.add_partitions(name, producer, [TopicPartition(TOPIC, place)])
    batch = make_batch(
        [name.encode()],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    broker.topics.get(TOPIC).partitions[place].append_nowait(batch, in_transaction=True)
    if group_id is not None:
        await transactions.add_offsets(name, producer, group_id)
        offsets = [OffsetToCommit(TOPIC, place, 70 + place)]
        broker.coordinator.offsets.commit_pending(OffsetCommit(group_id, offsets), *producer)
    return producer


def decide(
    broker: Broker, name: str, group_id: str | None, producer: ProducerIdentity, place: int, *, commit: bool
) -> None:
    """Leave a transaction as a broker does that ends between its decision and the first marker."""
    places = {TopicPartition(TOPIC, place)}
    if group_id is not None:
        places.add(TopicPartition(OFFSETS, masked_hash(group_id) % COUNT))
    now_ms = time.time_ns() // 1_000_000
    begun = Transaction(
        name,
        *producer,
        LONG_MS,
        TransactionState.ONGOING,
        frozenset(places),
        now_ms,
        now_ms,
        client_version=2,
    )
    decided = machine.end(begun, producer, commit=commit, version=2, now_ms=now_ms)
    assert decided is not None
    record = TransactionChange.to(decided).to_record()
    write(broker, TRANSACTIONS, masked_hash(name) % COUNT, [record], now_ms)


async def fill(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an earlier version write state of every kind; what it decided last it has not carried out."""
    with earlier_version(monkeypatch):
        async with running_broker(settings(data)) as broker:
            await broker.topics.ensure(TOPIC)
            coordinator = broker.coordinator
            await coordinator.prepare_groups()
            await coordinator.prepare_transactions()
            for group_id in (COMMITTED, CLASSIC, PENDING, DECIDED, DELETED, RIGHT):
                offsets = [OffsetToCommit(TOPIC, place, 10 + place, metadata="m") for place in range(3)]
                coordinator.offsets.commit(OffsetCommit(group_id, offsets))
            expiring = [OffsetToCommit(TOPIC, 1, 99)]
            coordinator.offsets.commit(OffsetCommit(COMMITTED, expiring, retention_time_ms=10**9))
            coordinator.offsets.delete(DELETED, [(TOPIC, place) for place in range(3)])
            for group_id, records in ((CONSUMER, CONSUMER_RECORDS), (CLASSIC, [CLASSIC_RECORD])):
                write(broker, OFFSETS, masked_hash(group_id) % COUNT, records)
            transactions = coordinator.transactions
            await transactions.init_producer_id(EMPTY, LONG_MS)
            await begin(broker, OPEN, PENDING, 0)
            producer = await begin(broker, COMPLETE, PENDING, 1)
            await transactions.end(COMPLETE, producer, commit=True)
            await transactions.init_producer_id(GONE, LONG_MS)
            write(
                broker, TRANSACTIONS, masked_hash(GONE) % COUNT, [TransactionChange(GONE, None).to_record()]
            )
            producer = await begin(broker, PREPARED, DECIDED, 1)
            decide(broker, PREPARED, DECIDED, producer, 1, commit=True)
            producer = await begin(broker, ABORTING, COMMITTED, 2)
            decide(broker, ABORTING, COMMITTED, producer, 2, commit=False)


async def loaded(broker: Broker) -> None:
    """Wait until everything was read back, and what was decided is carried out."""
    with trio.fail_after(DEADLINE_S):
        while not await _is_loaded(broker):  # noqa: ASYNC110 no event tells
            await trio.sleep(0.005)


async def _is_loaded(broker: Broker) -> bool:
    try:
        for group_id in GROUPS:
            broker.coordinator.offsets.fetch(OffsetFetch(group_id, None))
        states = set((await transaction_states(broker)).values())
    except CoordinatorLoadInProgress:
        return False
    return not states & {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}


def expected_offsets(*, open_committed: bool | None = None) -> dict[str, dict[int, int]]:
    """Return what each group has committed once the decided transactions are carried out."""
    plain = {place: 10 + place for place in range(3)}
    pending = plain | {1: 71}
    if open_committed:
        pending |= {0: 70}
    return {
        COMMITTED: plain | {1: 99},
        CLASSIC: plain,
        CONSUMER: {},
        PENDING: pending,
        DECIDED: plain | {1: 71},
        DELETED: {},
        RIGHT: plain,
    }


def committed_offsets(broker: Broker) -> dict[str, dict[int, int]]:
    """Return what each group has committed."""
    fetch = broker.coordinator.offsets.fetch
    return {group_id: _offsets_in(fetch(OffsetFetch(group_id, None))) for group_id in GROUPS}


def _offsets_in(fetched: FetchedOffsets) -> dict[int, int]:
    places = fetched.get(TOPIC, {})
    return {place: found.offset for place, found in places.items() if isinstance(found, CommittedOffset)}


def is_unstable(broker: Broker, group_id: str) -> bool:
    """Whether a transaction may still move a group."""
    fetched = broker.coordinator.offsets.fetch(OffsetFetch(group_id, {TOPIC: [0]}, require_stable=True))
    return isinstance(fetched[TOPIC][0], BrokerError)


def described_groups(broker: Broker) -> tuple[object, object]:
    """Return what tools see of the group with classic members and of that of the consumer protocol."""
    classic = broker.coordinator.groups.describe(CLASSIC)
    try:
        consumer = broker.coordinator.consumer_groups.describe(CONSUMER)
    except GroupIdNotFound:
        return classic, None
    return classic, consumer


async def transaction_states(broker: Broker) -> dict[str, TransactionState]:
    """Return the state of each transactional id."""
    found = await broker.coordinator.transactions.list(TransactionFilter())
    return {transaction.transactional_id: transaction.state for transaction in found}


TRANSACTION_STATES = {
    EMPTY: TransactionState.EMPTY,
    OPEN: TransactionState.ONGOING,
    PREPARED: TransactionState.COMPLETE_COMMIT,
    ABORTING: TransactionState.COMPLETE_ABORT,
    COMPLETE: TransactionState.COMPLETE_COMMIT,
}


def image_of(broker: Broker, topic: str, partition: int) -> LogImage:
    """Return what the records of a partition come to."""
    log, image = broker.topics.get(topic).partitions[partition], LogImage()
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = log.read(offset, 1 << 20, Isolation.READ_UNCOMMITTED, wait=True)
        data = b"".join(region_bytes(region) for region in found.regions)
        batches, offset = decode_batches(memoryview(data), offset)
        for batch in batches:
            image.apply(batch)
    return image


def misplaced_keys(broker: Broker) -> list[tuple[str, int, bytes]]:
    """Return every key with a value, or with one to come, that is not where Kafka looks for it."""
    found: list[tuple[str, int, bytes]] = []
    for topic in LOGS:
        for partition in range(COUNT):
            image = image_of(broker, topic, partition)
            keys = [key for key, _, _ in image.live()] + [
                key for held in image.pending.values() for key in held
            ]
            found += [
                (topic, partition, key) for key in keys if partition_for(name_in(key), COUNT) != partition
            ]
    return found


def log_ends(broker: Broker) -> dict[str, list[int]]:
    """Return where the logs end."""
    return {
        topic: [partition.log_end_offset for partition in broker.topics.get(topic).partitions]
        for topic in (*LOGS, TOPIC)
    }

"""Of the state of one transactional id in two partitions the newer stays, and nothing is left half done."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.deadlines import DEADLINE_S
from tests.plugins.coordinator import misplacing
from tests.plugins.coordinator.misplacing import (
    COUNT,
    OPEN,
    PENDING,
    TOPIC,
    TRANSACTIONS,
    committed_offsets,
    expected_offsets,
    image_of,
    is_unstable,
    loaded,
    settings,
    write,
)
from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.coordination.transactions import TransactionState
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.coordinator.hashing import partition_for
from tidelog.plugins.coordinator.log import LoadedBatch
from tidelog.plugins.coordinator.log.log_image import LogImage
from tidelog.plugins.coordinator.transactions.changes import TransactionChange
from tidelog.plugins.coordinator.transactions.relocation import TransactionRelocation
from tidelog.plugins.coordinator.transactions.table import Held
from tidelog.plugins.coordinator.transactions.transaction import Transaction

NAME = "payments"
SOURCE, TARGET = 1, 2
OLDER_MS, NEWER_MS = 100, 101
HALF_AN_HOUR_MS = 1_800_000

EMPTY, ONGOING, PREPARED = (
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
)


def known(producer_id: int, state: TransactionState) -> Transaction:
    return Transaction(NAME, producer_id, 0, 1000, state, start_ms=1, last_update_ms=1)


def image(transaction: Transaction | None, timestamp_ms: int) -> LogImage:
    """Return an image with that transaction, or with a tombstone."""
    image = LogImage()
    record = TransactionChange(NAME, transaction).to_record()
    image.apply(LoadedBatch(0, [record], timestamp_ms=timestamp_ms))
    return image


@pytest.mark.parametrize(
    ("ours", "theirs", "ours_is_newer", "outcome"),
    [
        (known(1, EMPTY), known(2, EMPTY), True, "moved"),
        (known(1, ONGOING), known(2, EMPTY), True, "moved"),
        (known(1, PREPARED), None, True, "moved"),
        (known(1, EMPTY), None, False, "dropped"),
        (known(1, EMPTY), known(2, EMPTY), False, "dropped"),
        (known(1, EMPTY), known(2, ONGOING), True, "dropped"),
        (known(1, ONGOING), known(2, ONGOING), True, "completed"),
        (known(1, ONGOING), known(2, EMPTY), False, "completed"),
        (known(1, ONGOING), None, False, "completed"),
        (known(1, PREPARED), known(2, PREPARED), False, "completed"),
        (known(1, ONGOING), known(1, PREPARED), False, "dropped"),
        (known(1, PREPARED), known(1, ONGOING), True, "moved"),
    ],
)
async def test_plan_moves_removes_or_completes_a_transaction_by_age_state_and_producer(
    ours: Transaction, theirs: Transaction | None, ours_is_newer: bool, outcome: str
) -> None:
    superseded: list[Held] = []
    policy = TransactionRelocation(lambda _: TARGET, superseded.append)
    times = (NEWER_MS, OLDER_MS) if ours_is_newer else (OLDER_MS, NEWER_MS)
    move = await policy.plan(SOURCE, image(ours, times[0]), TARGET, image(theirs, times[1]))
    copied = [(each.timestamp_ms, list(each.records)) for each in move.copies]
    expected = [(times[0], [TransactionChange.to(ours).to_record()])]
    assert copied == (expected if outcome == "moved" else [])
    assert list(move.removed) == (
        [] if outcome == "completed" else [TransactionChange(NAME, None).to_record().key]
    )
    assert superseded == ([Held(SOURCE, ours)] if outcome == "completed" else [])


def is_known_in(broker: Broker, partition: int) -> bool:
    """Whether a partition has a value for the id of the open transaction."""
    open_key = TransactionChange(OPEN, None).to_record().key
    return any(key == open_key for key, _, _ in image_of(broker, TRANSACTIONS, partition).live())


async def test_superseded_transactions_of_an_earlier_producer_are_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after Apache Kafka had the directory meanwhile, and gave the transactional id another producer."""
    data = tmp_path / "data"
    await misplacing.fill(data, monkeypatch)
    home = partition_for(OPEN, COUNT)
    with misplacing.earlier_version(monkeypatch):
        async with running_broker(settings(data)) as broker:
            # Of this day, or the id would expire.
            newer = Transaction(OPEN, 4000, 0, 60_000, EMPTY, last_update_ms=broker.clock())
            record = TransactionChange.to(newer).to_record()
            write(broker, TRANSACTIONS, home, [record], broker.clock() + HALF_AN_HOUR_MS)
    for _ in range(2):
        async with running_broker(settings(data)) as broker:
            await loaded(broker)
            with trio.fail_after(DEADLINE_S):
                while is_known_in(broker, misplacing.masked_hash(OPEN) % COUNT):  # noqa: ASYNC110 no event tells
                    await trio.sleep(0.01)
            described = broker.coordinator.transactions.describe(OPEN)
            assert (described.state, described.producer) == (EMPTY, newer.producer)
            assert committed_offsets(broker) == expected_offsets()
            assert not is_unstable(broker, PENDING)
            for topic in (*misplacing.LOGS, TOPIC):
                for partition in broker.topics.get(topic).partitions:
                    assert partition.last_stable_offset == partition.log_end_offset

"""Clients that read committed data only see exactly that, though markers were written by no coordinator."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from pathlib import Path

import attrs
import pytest
import trio
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.deadlines import DEADLINE_S
from tests.peers import find_kafka
from tidelog.kernel.broker import Broker
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
TOPIC = "payments"
SEGMENT_BYTES = 1024 * 1024
PADDING = b"." * 2000


@attrs.define
class Written:
    """Values in the log: all of them in order, and those that were committed, up to what is undecided."""

    everything: list[bytes] = attrs.field(factory=list[bytes])
    committed: list[bytes] = attrs.field(factory=list[bytes])


def write_transactions(partition: UnifiedLog) -> Written:
    """Some thousand records of interleaved transactions, across segments; at the end one is left open."""
    choose, written = random.Random(11), Written()
    values: list[tuple[int, bytes]] = []
    fates: dict[int, bool] = {}
    opened: dict[int, int] = {}
    sequences = dict.fromkeys(range(5), 0)
    for step in range(1500):
        producer_id = choose.randrange(5)
        if choose.random() < 0.2 and producer_id in opened:
            commit = fates[opened.pop(producer_id)] = choose.random() < 0.5
            partition.append_marker(producer_id, 0, 0, commit=commit)
            continue
        transaction = opened.setdefault(producer_id, step)
        batch_values = [b"%d-%d" % (step, index) + PADDING for index in range(choose.randrange(1, 4))]
        batch = make_batch(
            batch_values,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequences[producer_id],
            transactional=True,
        )
        partition.append_nowait(batch, in_transaction=True)
        sequences[producer_id] += len(batch_values)
        values += [(transaction, value) for value in batch_values]
    for producer_id, transaction in sorted(opened.items())[:-1]:
        fates[transaction] = producer_id % 2 == 0
        partition.append_marker(producer_id, 0, 0, commit=fates[transaction])
    undecided = next(index for index, (transaction, _) in enumerate(values) if transaction not in fates)
    written.everything = [value for _, value in values]
    written.committed = [value for transaction, value in values[:undecided] if fates[transaction]]
    return written


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncGenerator[Broker]:
    """A broker in this process, with files."""
    settings = {"storage": "file", "log.dirs": str(tmp_path / "data"), "log.segment.bytes": SEGMENT_BYTES}
    async with running_broker(settings) as running:
        yield running


async def filled(broker: Broker) -> Written:
    """The topic, with all that `write_transactions` writes."""
    topic = await broker.topics.create(TopicSpec(TOPIC, 1))
    written = write_transactions(topic.partitions[0].log)
    assert len(topic.partitions[0].log.store.segments()) > 2
    return written


def read_with_confluent(bootstrap: str, isolation: str) -> list[bytes]:
    """All values up to the end that a reader of that isolation sees."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "max.partition.fetch.bytes": 20_000,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: list[bytes] = []
        while (message := consumer.poll(DEADLINE_S)) is not None:
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error  # its public name
                return values
            values.append(message.value() or b"")
        raise AssertionError(f"the consumer stopped after {len(values)} records")
    finally:
        consumer.close()


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
async def test_confluent_kafka(broker: Broker, isolation: str) -> None:
    written = await filled(broker)
    bootstrap = ",".join(broker.listeners.values())
    values = await trio.to_thread.run_sync(read_with_confluent, bootstrap, isolation)
    assert values == (written.committed if isolation == "read_committed" else written.everything)


async def test_the_java_client(broker: Broker) -> None:
    kafka = find_kafka()
    written = await filled(broker)
    bootstrap = ",".join(broker.listeners.values())
    arguments = [
        "--bootstrap-server",
        bootstrap,
        "--topic",
        TOPIC,
        "--partition",
        "0",
        "--offset",
        "earliest",
    ]
    arguments += ["--isolation-level", "read_committed", "--timeout-ms", "4000"]
    done = await trio.to_thread.run_sync(kafka.run_tool, CONSOLE_CONSUMER, arguments)
    assert done.stdout.splitlines() == [value.decode() for value in written.committed]

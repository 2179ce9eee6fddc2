"""Batches that are produced by a client, and what is in the log then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.plugins.protocol_kafka.apis.client import Client
from tidelog.kernel.broker import Broker
from tidelog.kernel.records.batch import BatchHeader, Buffer, split_batches
from tidelog.kernel.records.record import Record, iter_records
from tidelog.plugins.protocol_kafka.messages.api import PRODUCE
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

TOPIC = "flights"
NAMES_UNTIL = 12
"""The last version of Produce that names topics."""


def request(batches: Mapping[str, Sequence[Buffer]], *, acks: int = 1) -> ProduceRequest:
    """A request with a batch for each partition of topics."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[
                    PartitionProduceData(index=index, records=memoryview(bytearray(batch)))
                    for index, batch in enumerate(of_topic)
                ],
            )
            for name, of_topic in batches.items()
        ],
    )


async def send(
    broker: Broker, batch: Buffer, topic: str = TOPIC, version: int = NAMES_UNTIL
) -> PartitionProduceResponse:
    """The answer for one batch."""
    client = Client(broker)
    response = await client.ask(PRODUCE, version, request({topic: [batch]}))
    answers: list[PartitionProduceResponse] = response.responses[0].partition_responses
    return answers[0]


def stored(broker: Broker, topic: str = TOPIC, partition: int = 0) -> list[tuple[BatchHeader, list[Record]]]:
    """All batches of a partition, with their records."""
    log = broker.topics.get(topic).partitions[partition].log
    found = log.store.read_batches(0, 10**9, log.log_end_offset, wait=True)
    content = memoryview(b"".join(bytes(region) for region in found.regions))  # type: ignore[arg-type]
    return [(header, list(iter_records(batch, header))) for header, batch in split_batches(content)]


def values(broker: Broker, topic: str = TOPIC) -> list[bytes | None]:
    """All values of partition 0."""
    return [record.value for _, records in stored(broker, topic) for record in records]

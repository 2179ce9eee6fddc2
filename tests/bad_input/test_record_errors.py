"""Produce names the records that a batch is refused for (KIP-467), as Apache Kafka does."""

from __future__ import annotations

import gzip
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tidelog.plugins.protocol_kafka.messages import api as apis

from .batches import APPEND_TIME, GZIP, batch, record
from .raw import RawConnection
from .raw_client import RawClient, produce
from .requests import ask, response_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.peers import KafkaServer, TidelogServer

COMPACTED = {"cleanup.policy": "compact"}
A_MINUTE = {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"}
STAMPED = {"message.timestamp.type": "LogAppendTime"}
HOUR_MS = 3_600_000
KEYLESS = tuple(range(5, 100, 10))


class Refusal(NamedTuple):
    """A batch of so many records, and what is wrong with some of them."""

    config: Mapping[str, str]
    records: int
    keyless: tuple[int, ...] = ()
    times: Mapping[int, int] = {}
    attributes: int = 0
    ahead_ms: int = 0

    def batch(self) -> bytes:
        now_ms = int(time.time() * 1000) + self.ahead_ms
        body = b"".join(
            record(
                b"v",
                key=None if index in self.keyless else b"k",
                offset_delta=index,
                timestamp_delta=self.times.get(index, 0),
            )
            for index in range(self.records)
        )
        return batch(
            body=gzip.compress(body) if self.attributes & GZIP else body,
            attributes=self.attributes,
            timestamp=now_ms,
            count=self.records,
            last_offset_delta=self.records - 1,
        )


class Answer(NamedTuple):
    """All fields of a partition's answer but for what the messages say."""

    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    named: list[int]
    all_have_messages: bool
    has_message: bool


REFUSALS = {
    "ten of a hundred without a key": Refusal(COMPACTED, 100, KEYLESS),
    "ten of a hundred without a key, compressed": Refusal(COMPACTED, 100, KEYLESS, attributes=GZIP),
    "all without a key": Refusal(COMPACTED, 3, (0, 1, 2)),
    "one without a key": Refusal(COMPACTED, 3, (2,)),
    "too far ahead": Refusal({}, 4, times={1: 2 * HOUR_MS, 3: 3 * HOUR_MS}, attributes=GZIP),
    "too far behind and ahead": Refusal(A_MINUTE, 4, times={0: -HOUR_MS, 2: HOUR_MS}, attributes=GZIP),
    "all too far ahead, as the header says": Refusal({}, 3, ahead_ms=2 * HOUR_MS),
    "all but one too far ahead, as the header says": Refusal(
        {}, 3, times={1: -2 * HOUR_MS}, ahead_ms=2 * HOUR_MS
    ),
    "keys and times": Refusal({**COMPACTED, **A_MINUTE}, 5, (0, 2), {2: HOUR_MS, 3: HOUR_MS}),
    "append time that is not the client's": Refusal(STAMPED, 3, attributes=APPEND_TIME),
    "append time that is not the client's, compressed": Refusal(STAMPED, 3, attributes=APPEND_TIME | GZIP),
}
VERSIONS = (8, 9, 12)


def answer_to(client: RawClient, topic: str, refusal: Refusal, version: int) -> Answer:
    sent = ask(apis.PRODUCE, version, produce(topic, refusal.batch()))
    with RawConnection(client.bootstrap) as connection:
        connection.send(sent.data)
        response: Any = response_of(sent, connection.frame())
    ((partition,),) = [topic.partition_responses for topic in response.responses]
    return Answer(
        partition.error_code,
        partition.base_offset,
        partition.log_append_time_ms,
        partition.log_start_offset,
        [error.batch_index for error in partition.record_errors],
        all(error.batch_index_error_message for error in partition.record_errors),
        bool(partition.error_message),
    )


@pytest.fixture(scope="module")
def clients(tidelog: TidelogServer, kafka: KafkaServer) -> Iterator[list[RawClient]]:
    """A client of each broker, with a topic for each refusal."""
    both = [RawClient(tidelog.bootstrap, "record-errors"), RawClient(kafka.bootstrap, "record-errors")]
    for client in both:
        for number, refusal in enumerate(REFUSALS.values()):
            client.create(f"refusals-{number}", refusal.config, partitions=1)
            good = batch(body=record(b"v"))
            client.ask_well(ask(apis.PRODUCE, 9, produce(f"refusals-{number}", good)))
    yield both
    for client in both:
        client.close()


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", REFUSALS)
def test_the_answer_is_that_of_apache_kafka(clients: list[RawClient], name: str, version: int) -> None:
    topic = f"refusals-{list(REFUSALS).index(name)}"
    ours, theirs = [answer_to(client, topic, REFUSALS[name], version) for client in clients]
    assert ours == theirs
    assert ours.named
    assert ours.all_have_messages
    assert ours.has_message

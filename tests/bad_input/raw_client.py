"""A well-behaved client of a broker, and the topic that bad input is aimed at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import attrs

from tests.deadlines import DEADLINE_S
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdRequest
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.plugins.schema import ZERO_UUID

from . import batches
from .case import OK
from .raw import RawConnection
from .requests import ask, outcome_of, response_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .requests import Sent

PARTITIONS = 2
NODE_ID = 1
SEEDED = (b"first", b"second", b"third")
TIMEOUT_MS = 10_000
FETCH_BYTES = 1 << 24
# Apache Kafka answers that a topic is created before its broker has taken the lead of it.


@attrs.define
class RawClient:
    """A client of the broker at `bootstrap`.

    Its `topic` has two partitions, the first with a record for each of SEEDED.
    """

    bootstrap: str
    topic: str = "orders"
    topic_id: bytes = attrs.field(init=False)
    _good: RawConnection = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._good = RawConnection(self.bootstrap)
        self.topic_id = self.create(self.topic)
        for value in SEEDED:
            self.ask_well(ask(apis.PRODUCE, 9, produce(self.topic, batches.batch([value]))))

    def close(self) -> None:
        """End the well-behaved connection."""
        self._good.__exit__(None, None, None)

    def ask_well(self, sent: Sent) -> Any:
        """The answer to a good request, on a connection that stays open through everything bad."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            self._good.send(sent.data)
            response = response_of(sent, self._good.frame())
            outcomes = set(outcome_of(response).split(",")) - {OK}
            if not outcomes:
                return response
            passing = (
                all(ErrorCode[outcome].retriable for outcome in outcomes) and time.monotonic() < deadline
            )
            assert passing, f"a good {sent.api.name} was answered {', '.join(outcomes)}"
            time.sleep(0.02)

    def create(
        self, name: str, config: Mapping[str, str] | None = None, partitions: int = PARTITIONS
    ) -> bytes:
        """A new topic; its id."""
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=configs
        )
        created = self.ask_well(
            ask(apis.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS))
        )
        topic_id: bytes = created.topics[0].topic_id
        return topic_id

    def new_producer_id(self) -> int:
        """An id that no producer has used."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=TIMEOUT_MS)
        producer_id: int = self.ask_well(ask(apis.INIT_PRODUCER_ID, 4, request)).producer_id
        return producer_id

    def end_offset(self) -> int:
        """The log end offset of the topic's first partition."""
        partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST_TIMESTAMP)
        topic = ListOffsetsTopic(name=self.topic, partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        offset: int = self.ask_well(ask(apis.LIST_OFFSETS, 5, request)).topics[0].partitions[0].offset
        return offset

    def content(self) -> bytes:
        """All batches of the topic's first partition."""
        request = fetch(self.topic, 0)
        fetched = self.ask_well(ask(apis.FETCH, 11, request))
        return bytes(fetched.responses[0].partitions[0].records)


def produce(
    topic: str,
    records: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """A produce request for one partition."""
    data = PartitionProduceData(index=partition, records=None if records is None else memoryview(records))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch(
    topic: str,
    offset: int,
    *,
    topic_id: bytes = ZERO_UUID,
    partition: int = 0,
    partition_max_bytes: int = FETCH_BYTES,
    current_leader_epoch: int = -1,
    **fields: Any,
) -> FetchRequest:
    """A fetch request for one partition that does not wait; `fields` of the request say otherwise."""
    wanted = FetchPartition(
        partition=partition,
        current_leader_epoch=current_leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=partition_max_bytes,
    )
    named = FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])
    settings: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": FETCH_BYTES, **fields}
    return FetchRequest(topics=[named], **settings)

"""Enforced quotas: Apache Kafka and tidelog throttle the same clients for the same time.

The first request of a client is throttled by its size alone, so the times are equal to the millisecond. Each
case has clients and topics of its own, since both brokers remember what was used.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

from tidelog.kernel.testing import make_batch
from tidelog.plugins.protocol_kafka.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    OpData,
)
from tidelog.plugins.protocol_kafka.messages.api import (
    ALTER_CLIENT_QUOTAS,
    API_VERSIONS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    FETCH,
    METADATA,
    PRODUCE,
    Api,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeleteTopicsRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

from .asking import Asker

pytestmark = pytest.mark.long

PRODUCED, FETCHED = "producer_byte_rate", "consumer_byte_rate"
TIME, MUTATIONS = "request_percentage", "controller_mutation_rate"
TOPIC = "enforced-quotas"
RECORDS = make_batch([b"x" * 5000])
Entity = tuple[tuple[str, str | None], ...]
PRECEDENCE: tuple[Entity, ...] = (
    (("user", "ANONYMOUS"), ("client-id", "{id}")),
    (("user", "ANONYMOUS"), ("client-id", None)),
    (("user", "ANONYMOUS"),),
    (("user", None), ("client-id", "{id}")),
    (("user", None), ("client-id", None)),
    (("user", None),),
    (("client-id", "{id}"),),
    (("client-id", None),),
)
_numbers = itertools.count()


@attrs.frozen
class Broker:
    """One of the two; `quotas` sets some for the time of a block."""

    bootstrap: str

    @contextmanager
    def client(self, client_id: str | None) -> Generator[Asker]:
        asker = Asker(self.bootstrap, client_id)
        try:
            yield asker
        finally:
            asker.close()

    def alter(self, quotas: Mapping[Entity, Mapping[str, float | None]]) -> None:
        entries = [
            AlterClientQuotasEntry(
                entity=[AlterClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[
                    OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()
                ],
            )
            for entity, values in quotas.items()
        ]
        with self.client("tests") as admin:
            request = AlterClientQuotasRequest(entries=entries, validate_only=False)
            assert {each.error_code for each in admin.ask(ALTER_CLIENT_QUOTAS, 1, request).entries} == {0}

    @contextmanager
    def quotas(self, quotas: Mapping[Entity, Mapping[str, float | None]]) -> Generator[None]:
        self.alter(quotas)
        # Kafka applies them soon, one change after the other: the last one is seen by what it does.
        probe = f"probe-{next(_numbers)}"
        of_probe: Entity = (("client-id", probe),)
        self.alter({of_probe: {TIME: 1e-9}})
        try:
            while not self.throttled(probe):
                pass
            yield
        finally:
            # Others use the brokers, too.
            self.alter({entity: dict.fromkeys(values) for entity, values in quotas.items()})
            self.alter({of_probe: {TIME: None}})

    def throttled(self, client_id: str) -> int:
        with self.client(client_id) as probe:
            throttle_ms: int = probe.ask(METADATA, 9, MetadataRequest(topics=[])).throttle_time_ms
            return throttle_ms


@pytest.fixture(scope="module")
def brokers(shared_kafka: str, shared_tidelog: str) -> list[Broker]:
    """Both, with a topic that has two batches."""
    both = [Broker(shared_kafka), Broker(shared_tidelog)]
    for broker in both:
        with broker.client("tests") as client:
            client.ask(CREATE_TOPICS, 7, created(TOPIC, partitions=1))
            for _ in range(2):
                answer = client.ask(PRODUCE, 9, produced())
                while answer.responses[0].partition_responses[0].error_code:
                    answer = client.ask(PRODUCE, 9, produced())
    return both


def fresh() -> str:
    """A client id, or the name of a topic, that neither broker knows."""
    return f"fresh-{next(_numbers):04}"


def named(entity: Entity, client_id: str) -> Entity:
    """One of `PRECEDENCE` with a client id."""
    return tuple((kind, name and name.format(id=client_id)) for kind, name in entity)


def produced(acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=memoryview(bytearray(RECORDS)))
    topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)


def fetched(epoch: int = -1, **fields: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
    limits = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 6000}
    values: dict[str, Any] = {**limits, "session_epoch": epoch, "topics": topics, **fields}
    return FetchRequest(**values)


def created(*names: str, partitions: int = 10, validate_only: bool = False) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=60_000, validate_only=validate_only)


def grown(name: str, count: int) -> CreatePartitionsRequest:
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=None)]
    return CreatePartitionsRequest(topics=topics, timeout_ms=60_000, validate_only=False)


def throttle_time(broker: Broker, client_id: str | None, api: Api, version: int, request: object) -> int:
    with broker.client(client_id) as client:
        throttle_ms: int = client.ask(api, version, request).throttle_time_ms
        return throttle_ms


def same(brokers: list[Broker], *requests: tuple[Api, int, object], **quotas: float | None) -> list[int]:
    """The throttle times of requests, each of a client with these quotas; equal at both."""
    found: list[list[int]] = []
    for broker in brokers:
        clients = [fresh() for _ in requests]
        with broker.quotas({(("client-id", client),): quotas for client in clients}):
            asked = zip(clients, requests, strict=True)
            found.append([throttle_time(broker, client, *request) for client, request in asked])
    kafka, tidelog = found
    assert kafka == tidelog
    return kafka


@pytest.mark.parametrize("version", [3, 7, 9])
def test_produce_is_throttled_for_the_same_time(brokers: list[Broker], version: int) -> None:
    (throttle_ms,) = same(brokers, (PRODUCE, version, produced()), producer_byte_rate=100)
    assert throttle_ms > 40_000
    assert same(brokers, (PRODUCE, version, produced()), producer_byte_rate=1000) == [0]


@pytest.mark.parametrize("version", [4, 7, 11, 12])
def test_fetch_is_throttled_for_the_same_time(brokers: list[Broker], version: int) -> None:
    (throttle_ms,) = same(brokers, (FETCH, version, fetched()), consumer_byte_rate=100)
    # The first batch is whole, though ten seconds have a thousand bytes.
    assert throttle_ms > 40_000
    # What fits ten seconds with all that is around the records is sent.
    assert same(brokers, (FETCH, version, fetched()), consumer_byte_rate=700) == [0]


def test_a_throttled_fetch_has_no_partitions_and_no_session(brokers: list[Broker]) -> None:
    for broker in brokers:
        client_id = fresh()
        with broker.quotas({(("client-id", client_id),): {FETCHED: 100}}), broker.client(client_id) as client:
            answer = client.ask(FETCH, 11, fetched(epoch=0))
            assert (answer.session_id, answer.responses, answer.error_code) == (0, [], 0)
            assert answer.throttle_time_ms
    for broker in brokers:
        client_id = fresh()
        with broker.client(client_id) as client:
            session_id = client.ask(FETCH, 11, fetched(epoch=0)).session_id
            assert session_id
        with broker.quotas({(("client-id", client_id),): {FETCHED: 100}}), broker.client(client_id) as client:
            answer = client.ask(FETCH, 11, fetched(epoch=1, session_id=session_id, topics=[]))
            assert (answer.session_id, answer.responses, answer.error_code) == (session_id, [], 0)
            assert answer.throttle_time_ms
        with broker.client(client_id) as client:
            unknown = client.ask(FETCH, 11, fetched(epoch=1, session_id=session_id, topics=[]))
            assert unknown.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_request_percentage_throttles_for_a_sample_at_most(brokers: list[Broker]) -> None:
    requests: list[tuple[Api, int, object]] = [
        (METADATA, 9, MetadataRequest(topics=[])),
        (PRODUCE, 9, produced()),
        (FETCH, 11, fetched()),
        (API_VERSIONS, 3, ApiVersionsRequest(client_software_name="t", client_software_version="1")),
    ]
    assert same(brokers, *requests, request_percentage=1e-9) == [1000] * 4


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_the_same_quota_of_eight_counts(brokers: list[Broker], first: int) -> None:
    """Those from this place on are set, each with a limit of its own."""
    # Those of the user are used up by all clients: it must not be what another case has used.
    key, api, version = (FETCHED, FETCH, 11) if first > 2 else (PRODUCED, PRODUCE, 9)
    request: object = fetched() if api is FETCH else produced()
    found: list[int] = []
    for broker in brokers:
        client_id = fresh()
        levels: dict[Entity, dict[str, float | None]] = {
            named(entity, client_id): {key: 50 + 10 * n} for n, entity in enumerate(PRECEDENCE) if n >= first
        }
        with broker.quotas(levels):
            found.append(throttle_time(broker, client_id, api, version, request))
    assert found[0] == found[1] > 0


@pytest.mark.parametrize("client_id", [None, ""])
@pytest.mark.parametrize("entity", PRECEDENCE[1:])
def test_clients_without_a_client_id_have_the_same_quota(
    brokers: list[Broker], client_id: str | None, entity: Entity
) -> None:
    found: list[bool] = []
    for broker in brokers:
        with broker.quotas({named(entity, fresh()): {PRODUCED: 60}}):
            found.append(throttle_time(broker, client_id, PRODUCE, 9, produced()) > 0)
    assert found[0] == found[1]


@pytest.mark.parametrize("strict", [False, True])
def test_mutations_of_topics_are_refused_and_throttled_alike(brokers: list[Broker], strict: bool) -> None:
    """The times are compared in tens of seconds: they are less by what the brokers took."""
    codes: list[list[list[int]]] = []
    times: list[list[int]] = []
    for broker in brokers:
        names = [fresh() for _ in range(3)]
        deleted = DeleteTopicsRequest(topic_names=names[:1], timeout_ms=60_000)
        requests: list[tuple[Api, int, Any, str]] = [
            (CREATE_TOPICS, 6 if strict else 5, created(*names), "topics"),
            (CREATE_TOPICS, 6 if strict else 5, created(fresh(), validate_only=True), "topics"),
            (CREATE_PARTITIONS, 3 if strict else 2, grown(names[0], 20), "results"),
            (DELETE_TOPICS, 5 if strict else 4, deleted, "responses"),
        ]
        client_id = fresh()
        codes.append([])
        times.append([])
        with broker.quotas({(("client-id", client_id),): {MUTATIONS: 0.01}}):
            for api, version, request, results in requests:
                with broker.client(client_id) as client:
                    answer = client.ask(api, version, request)
                codes[-1].append([each.error_code for each in getattr(answer, results)])
                times[-1].append(round(answer.throttle_time_ms / 100_000))
    assert codes[0] == codes[1]
    assert times[0] == times[1]
    assert any(times[0])

"""Faults with a name of their own, and connections that end in a response, for clients of two makers."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaError
from confluent_kafka import Producer as ConfluentProducer

from tests.deadlines import DEADLINE_S
from tidelog.client import Admin, Consumer, Producer, TopicPartition, errors
from tidelog.testing import InjectedFault, KafkaServer

GROUP: Final = "kitchen"
QUICK_HEARTBEATS: Final = {
    "group.consumer.min.heartbeat.interval.ms": 20,
    "group.consumer.heartbeat.interval.ms": 20,
}


@pytest.fixture(scope="module")
def shared() -> Iterator[KafkaServer]:
    with KafkaServer(QUICK_HEARTBEATS) as kafka:
        yield kafka


@pytest.fixture
def kafka(shared: KafkaServer) -> Iterator[KafkaServer]:
    shared.create_topic("orders")
    shared.clear_requests()
    yield shared
    shared.faults.clear()
    shared.delete_topic("orders")
    for group in shared.groups():
        shared.admin.delete_groups([group])


def use_confluent(kafka: KafkaServer) -> list[bytes | None]:
    producer = ConfluentProducer(kafka.config_for("confluent", enable_idempotence=True, retry_backoff_ms=5))
    producer.produce("orders", b"tea")
    assert producer.flush(DEADLINE_S) == 0
    settings = kafka.config_for("confluent", group_id=GROUP, auto_offset_reset="earliest", retry_backoff_ms=5)
    consumer = ConfluentConsumer(settings)
    try:
        consumer.subscribe(["orders"])
        found = consumer.consume(1, timeout=DEADLINE_S)
        consumer.commit(asynchronous=False)
        return [each.value() for each in found]
    finally:
        consumer.close()


def use_aiokafka(kafka: KafkaServer) -> list[bytes | None]:
    async def main() -> list[bytes | None]:
        settings = kafka.config_for("aiokafka", retry_backoff_ms=5)
        async with AIOKafkaProducer(enable_idempotence=True, **settings) as producer:
            await producer.send_and_wait("orders", b"tea")
        consumer = AIOKafkaConsumer("orders", group_id=GROUP, auto_offset_reset="earliest", **settings)
        await consumer.start()
        try:
            found = await asyncio.wait_for(consumer.getone(), DEADLINE_S)
            await consumer.commit()
        finally:
            await consumer.stop()
        return [found.value]

    return asyncio.run(main())


def refusals_and_delays(kafka: KafkaServer) -> list[InjectedFault]:
    return [
        kafka.faults.coordinator_loading(times=2),
        kafka.faults.leader_unknown(topic="orders", times=3),
        kafka.faults.slow_disk(0.02),
        kafka.faults.full_disk(times=1),
        kafka.faults.inject("Produce", "Fetch", throttle=0.02, times=2),
    ]


def cuts(kafka: KafkaServer) -> list[InjectedFault]:
    apis = ("Produce", "Fetch", "JoinGroup", "OffsetCommit")
    return [kafka.faults.inject(api, drop="middle", times=1) for api in apis]


@pytest.mark.parametrize("inject", [refusals_and_delays, cuts])
@pytest.mark.parametrize("use", [use_confluent, use_aiokafka])
def test_named_faults_are_survived_by_clients_and_counted(
    kafka: KafkaServer,
    use: Callable[[KafkaServer], list[bytes | None]],
    inject: Callable[[KafkaServer], list[InjectedFault]],
) -> None:
    faults = inject(kafka)
    # As an application gets them: each record once, though responses were lost.
    assert use(kafka) == [b"tea"]
    assert [each for each in faults if not each.count] == []
    assert kafka.lag(GROUP) == 0


def test_metadata_without_leader_say_so_of_the_named_topic_only(kafka: KafkaServer) -> None:
    kafka.produce("letters", "a")
    with kafka.faults.leader_unknown(topic="orders"), Consumer(kafka.bootstrap) as consumer:
        consumer.partitions_for("letters")
        consumer.partitions_for("orders")
    found = {
        (topic.name, partition.error_code, partition.leader_id)
        for each in kafka.requests("Metadata")
        for topic in each.response.topics
        for partition in topic.partitions
    }
    assert found == {("letters", 0, 1), ("orders", 5, -1)}
    kafka.delete_topic("letters")


def test_full_disk_refuses_writes_and_lets_what_is_there_be_read(kafka: KafkaServer) -> None:
    kafka.produce("orders", "tea")
    with kafka.faults.full_disk() as fault:
        with (
            Producer(kafka.bootstrap, retries=0) as producer,
            pytest.raises(errors.ErrorResponse, match="KAFKA_STORAGE_ERROR"),
        ):
            producer.send_and_wait("orders", b"cake")
        undelivered: list[object] = []
        confluent = ConfluentProducer(kafka.config_for("confluent", retries=0))
        confluent.produce("orders", b"cake", on_delivery=lambda error, _: undelivered.append(error))
        assert confluent.flush(DEADLINE_S) == 0
        assert undelivered == [KafkaError(KafkaError.KAFKA_STORAGE_ERROR)]

        assert {each.api for each in fault.requests} == {"Produce"}
        with Consumer(kafka.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            kafka.wait_until(lambda: [each.value for each in consumer.poll(0.01)] == [b"tea"])
    assert [each.value for each in kafka.records("orders")] == [b"tea"]


def test_response_is_cut_in_its_middle_and_the_request_was_done(kafka: KafkaServer) -> None:
    # Metadata 1 with correlation id 7, an empty client id, of all topics.
    request = struct.pack(">hhihi", 3, 1, 7, 0, -1)
    framed = struct.pack(">i", len(request)) + request
    lengths: list[tuple[int, int]] = []
    host, _, port = kafka.bootstrap.rpartition(":")
    for drop in (None, "middle"):
        if drop:
            kafka.faults.metadata(drop="middle", times=1)
        with closing(socket.create_connection((host, int(port)), timeout=DEADLINE_S)) as connection:
            connection.sendall(framed)
            if drop is None:
                connection.shutdown(socket.SHUT_WR)
            received = b"".join(iter(lambda: connection.recv(4096), b""))
            lengths.append((len(received), struct.unpack_from(">i", received)[0] + 4))
    (whole, announced), (cut, announced_of_cut) = lengths
    assert whole == announced == announced_of_cut
    assert cut == whole // 2


def test_changed_response_is_what_the_client_gets(kafka: KafkaServer) -> None:
    def rename(response: Any) -> None:
        response.cluster_id = "other"

    with Admin(kafka.bootstrap) as admin, kafka.faults.metadata(change=rename, times=1) as fault:
        assert admin.describe_cluster().cluster_id == "other"
        assert admin.describe_cluster().cluster_id != "other"
    assert fault.count == 1


def test_errors_may_be_those_of_several_apis(kafka: KafkaServer) -> None:
    with pytest.raises(ValueError, match="no API 'Produced'"):
        kafka.faults.inject(error={"Produced": 1})
    with (
        kafka.faults.inject("Produce", "Fetch", error={"Produce": "POLICY_VIOLATION"}) as fault,
        Producer(kafka.bootstrap, retries=0) as producer,
        pytest.raises(errors.ErrorResponse, match="POLICY_VIOLATION"),
    ):
        producer.send_and_wait("orders", b"tea")
    assert fault.count == 1


def test_seed_decides_which_requests_meet_a_fault(kafka: KafkaServer) -> None:
    met: list[list[int]] = []
    with Producer(kafka.bootstrap, retries=0) as producer:
        for seed in (7, 7, 8):
            kafka.faults.seed(seed)
            with kafka.faults.produce(throttle=0.0001, probability=0.5) as fault:
                found: list[int] = []
                for _ in range(30):
                    before = fault.count
                    producer.send_and_wait("orders", b"tea")
                    found.append(fault.count - before)
                met.append(found)
    assert met[0] == met[1] != met[2]


class Rebalances:
    """What a consumer is told of its partitions."""

    def __init__(self) -> None:
        self.assigned = self.taken = 0

    def on_assign(self, *_: object) -> None:
        self.assigned += 1

    def on_revoke(self, *_: object) -> None:
        self.taken += 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalance_lets_members_of_confluent_join_again(kafka: KafkaServer, protocol: str) -> None:
    options = {"heartbeat_interval_ms": 20, "session_timeout_ms": 6000} if protocol == "classic" else {}
    seen = Rebalances()
    consumer = ConfluentConsumer(
        kafka.config_for("confluent", group_id=GROUP, group_protocol=protocol, **options)
    )
    try:
        consumer.subscribe(
            ["orders"], on_assign=seen.on_assign, on_revoke=seen.on_revoke, on_lost=seen.on_revoke
        )
        kafka.wait_until(lambda: consumer.poll(0.01) or seen.assigned == 1, "an assignment")
        fault = kafka.rebalance(GROUP)
        kafka.wait_until(lambda: consumer.poll(0.01) or seen.assigned == 2, "another assignment")
        assert seen.taken == 1
        assert (fault is None) == (protocol == "classic")
        assert fault is None or fault.count == 1
    finally:
        consumer.close()
    with pytest.raises(ValueError, match="no group 'kitchen' with members"):
        kafka.rebalance(GROUP)


def test_rebalance_lets_a_member_of_aiokafka_join_again(kafka: KafkaServer) -> None:
    async def main() -> None:
        consumer = AIOKafkaConsumer(
            "orders", **kafka.config_for("aiokafka", group_id=GROUP, heartbeat_interval_ms=20)
        )
        await consumer.start()
        try:
            kafka.clear_requests()
            await asyncio.to_thread(kafka.rebalance, GROUP)
            await asyncio.to_thread(kafka.wait_until, lambda: kafka.requests("SyncGroup"), "a rebalance")
            assert kafka.requests("JoinGroup")
        finally:
            await consumer.stop()

    asyncio.run(main())

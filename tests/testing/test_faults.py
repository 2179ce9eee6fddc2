"""Faults on purpose, and what they do to real clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka import Producer as ConfluentProducer

from tests.deadlines import DEADLINE_S
from tidelog.client import Admin, Producer, errors
from tidelog.testing import KafkaServer, request_log


@pytest.fixture(scope="module")
def shared() -> Iterator[KafkaServer]:
    with KafkaServer() as kafka:
        yield kafka


@pytest.fixture
def kafka(shared: KafkaServer, request: pytest.FixtureRequest) -> Iterator[KafkaServer]:
    shared.create_topic("orders")
    shared.clear_requests()
    yield shared
    shared.faults.clear()
    for topic in shared.topics():
        shared.delete_topic(topic)


def values(kafka: KafkaServer, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in kafka.records(topic)]


def test_error_is_answered_so_many_times_and_the_client_goes_on(kafka: KafkaServer) -> None:
    producer = ConfluentProducer(kafka.config_for("confluent", client_id="shop"))
    with kafka.faults.produce(
        error="NOT_LEADER_OR_FOLLOWER", times=2, client_id="shop", version=range(20)
    ) as fault:
        producer.produce("orders", b"tea")
        assert producer.flush(DEADLINE_S) == 0
        assert fault.count == 2
    assert values(kafka) == [b"tea"]
    codes = [
        each.response.responses[0].partition_responses[0].error_code for each in kafka.requests("Produce")
    ]
    assert codes == [6, 6, 0]
    assert {each.client_id for each in fault.requests} == {"shop"}


@pytest.mark.parametrize("error", ["TOPIC_AUTHORIZATION_FAILED", 29, "THROTTLING_QUOTA_EXCEEDED", 45])
def test_error_may_be_any_of_kafka_by_name_or_code(kafka: KafkaServer, error: str | int) -> None:
    with Producer(kafka.bootstrap, retries=0) as producer, kafka.faults.produce(error=error):
        with pytest.raises(errors.ErrorResponse) as raised:
            producer.send_and_wait("orders", b"tea")
        assert raised.value.code in (29, 89, 45)
        assert error in (raised.value.code, raised.value.code.name)
    assert values(kafka) == []


@pytest.mark.parametrize(
    "whom",
    [
        {"topic": "letters"},
        {"client_id": "office"},
        {"version": 2},
        {"version": range(3)},
        {"where": lambda message: message.timeout_ms == 77},
        {"times": 0},
        {"probability": 0.0},
    ],
    ids=lambda whom: next(iter(whom)),
)
def test_fault_passes_over_the_requests_of_others(kafka: KafkaServer, whom: dict[str, object]) -> None:
    with (
        Producer(kafka.bootstrap, client_id="shop", retries=0) as producer,
        kafka.faults.produce(error="UNKNOWN_SERVER_ERROR", **whom) as fault,
    ):
        producer.send_and_wait("orders", b"tea")
        assert fault.count == 0


def test_fault_finds_the_topic_by_its_name_though_the_request_has_its_id(kafka: KafkaServer) -> None:
    kafka.create_topic("letters")
    with (
        Producer(kafka.bootstrap, retries=0) as producer,
        kafka.faults.produce(error="KAFKA_STORAGE_ERROR", topic="orders") as fault,
    ):
        producer.send_and_wait("letters", b"a")
        with pytest.raises(errors.ErrorResponse, match="KAFKA_STORAGE_ERROR"):
            producer.send_and_wait("orders", b"b")
    assert fault.requests[0].version >= 13
    assert fault.count == 1


def test_dropped_request_is_not_done_and_a_dropped_response_is(kafka: KafkaServer) -> None:
    with Producer(kafka.bootstrap, enable_idempotence=False, acks=1, retries=0) as producer:
        for drop, expected in (("request", []), ("response", [b"tea"])):
            with kafka.faults.produce(drop=drop, times=1) as fault:
                with pytest.raises(errors.ClientError):
                    producer.send_and_wait("orders", b"tea")
                assert fault.count == 1
            assert values(kafka) == expected
        dropped = kafka.requests("Produce")
    assert [(each.response is None, type(each.error).__name__) for each in dropped[:2]] == [
        (True, "ConnectionDropped")
    ] * 2


def test_idempotent_client_has_one_record_though_responses_are_lost(kafka: KafkaServer) -> None:
    producer = ConfluentProducer(kafka.config_for("confluent", enable_idempotence=True))
    with kafka.faults.produce(drop="response", times=2) as fault:
        producer.produce("orders", b"tea")
        assert producer.flush(DEADLINE_S) == 0
    assert fault.count == 2
    assert values(kafka) == [b"tea"]


def test_delay_holds_one_request_and_a_throttle_is_said_to_the_client(kafka: KafkaServer) -> None:
    with Producer(kafka.bootstrap) as producer:
        with kafka.faults.produce(delay=3600, times=1):
            delivery = producer.send("orders", b"late")
            # Time of the server, in which the request waits, is in the test's hands.
            kafka.wait_until(lambda: kafka.faults.held, "the request")
            assert not delivery.done()
            kafka.clock.advance(hours=1)
            delivery.result(DEADLINE_S)
        with kafka.faults.produce(throttle=0.05, times=1):
            producer.send_and_wait("orders", b"slowly")
    assert [each.response.throttle_time_ms for each in kafka.requests("Produce")] == [0, 50]


def test_fault_of_several_apis_or_all_meets_them(kafka: KafkaServer) -> None:
    with (
        Admin(kafka.bootstrap, retries=0) as admin,
        kafka.faults.inject("ListGroups", "DescribeConfigs", error="BROKER_NOT_AVAILABLE"),
    ):
        with pytest.raises(errors.ClientError, match="BROKER_NOT_AVAILABLE"):
            admin.describe_configs(["orders"])
        with pytest.raises(errors.ClientError, match="BROKER_NOT_AVAILABLE"):
            admin.list_groups()
        assert admin.list_topics() == ["orders"]
    with (
        Admin(kafka.bootstrap, retries=0) as admin,
        kafka.faults.inject(drop="request") as fault,
        pytest.raises(errors.ClientError),
    ):
        admin.list_groups()
    assert fault.count > 0


def test_probability_is_decided_by_a_seed() -> None:
    counts: list[int] = []
    for _ in range(2):
        with KafkaServer(topics=["orders"]) as kafka, Producer(kafka.bootstrap, retries=0) as producer:
            with kafka.faults.produce(error="UNKNOWN_SERVER_ERROR", probability=0.5) as fault:
                for number in range(20):
                    with suppress(errors.ErrorResponse):
                        producer.send_and_wait("orders", b"%d" % number)
            counts.append(fault.count)
    assert counts[0] == counts[1]
    assert 0 < counts[0] < 20


def test_what_cannot_be_injected_is_named(kafka: KafkaServer) -> None:
    for wrong, reason in (
        ({"error": "NO_SUCH_THING"}, "no error 'NO_SUCH_THING'"),
        ({"error": 4711}, "no error 4711"),
        ({}, "an error, a delay, a drop, a throttle or a change"),
        ({"drop": "both"}, "request, response or middle, not 'both'"),
        ({"error": 6, "times": -1}, "are not negative"),
        ({"delay": -0.1}, "are not negative"),
        ({"throttle": -1}, "are not negative"),
        ({"error": 6, "probability": 7}, "between 0 and 1, not 7"),
        ({"error": 6, "probability": -0.5}, "between 0 and 1, not -0.5"),
    ):
        with pytest.raises(ValueError, match=reason):
            kafka.faults.produce(**wrong)
    with pytest.raises(ValueError, match="there is no API 'Produced'"):
        kafka.faults.inject("Produced", error=1)
    with pytest.raises(AttributeError, match="there is no API 'produced'"):
        kafka.faults.produced(error=1)
    assert {"produce", "join_group", "inject"} <= set(dir(kafka.faults))


def test_requests_keep_what_was_sent_though_buffers_are_used_again(kafka: KafkaServer) -> None:
    with Producer(kafka.bootstrap, client_id="shop") as producer:
        for value in (b"first " * 20, b"other " * 20):
            producer.send_and_wait("orders", value)
    first, second = kafka.requests("Produce", client_id="shop")
    assert b"first first" in first.message.topic_data[0].partition_data[0].records
    assert b"other other" in second.message.topic_data[0].partition_data[0].records
    assert first.response is not None
    assert str(first).startswith(f"Produce {first.version} of shop: ProduceRequest(")
    kafka.clear_requests()
    assert kafka.requests() == []


def test_requests_are_bounded_by_number(kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert request_log.MOST_REQUESTS == 10_000
    monkeypatch.setattr(request_log, "MOST_REQUESTS", 3)
    with (
        Admin(kafka.bootstrap, client_id="noisy") as admin,
        kafka.faults.list_groups(throttle=0.001) as fault,
    ):
        for _ in range(5):
            admin.list_groups()
    assert len(kafka.requests()) == 3
    assert (fault.count, len(fault.requests)) == (5, 3)


def test_requests_are_bounded_by_the_memory_of_what_is_sent_and_fetched(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert request_log.MOST_BYTES == 64 << 20
    monkeypatch.setattr(request_log, "MOST_BYTES", 250_000)
    with (
        Producer(kafka.bootstrap, retries=0, compression_type="none") as producer,
        kafka.faults.produce(throttle=0.001) as fault,
    ):
        for _ in range(4):
            producer.send_and_wait("orders", bytes(100_000))
    assert (fault.count, len(fault.requests)) == (4, 2)
    assert len(kafka.requests("Produce")) == 2
    # What is fetched counts, too, and drops them; the newest one is kept though it has more than all may.
    monkeypatch.setattr(request_log, "MOST_BYTES", 1000)
    consumer = ConfluentConsumer(kafka.config_for("confluent", group_id="g", client_id="reader"))
    try:
        consumer.assign([TopicPartition("orders", 0, 0)])
        kafka.wait_until(lambda: consumer.poll(0.01), "a record")
        assert len(kafka.requests()) < 10
        assert kafka.requests("Produce") == []
    finally:
        consumer.close()


def test_confluent_admin_sees_the_error(kafka: KafkaServer) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient(kafka.config_for("confluent"))
    with (
        kafka.faults.create_topics(error="POLICY_VIOLATION") as fault,
        pytest.raises(KafkaException, match="POLICY_VIOLATION"),
    ):
        admin.create_topics([NewTopic("letters", 1)])["letters"].result(DEADLINE_S)
    assert fault.count == 1


def test_member_of_a_group_joins_again_after_what_a_fault_says(kafka: KafkaServer) -> None:
    consumer = ConfluentConsumer(
        kafka.config_for(
            "confluent",
            group_id="kitchen",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=50,
            session_timeout_ms=6000,
        )
    )
    try:
        consumer.subscribe(["orders"])
        kafka.wait_until(lambda: consumer.poll(0.01) or consumer.assignment(), "an assignment")
        kafka.clear_requests()
        with kafka.faults.heartbeat(error="REBALANCE_IN_PROGRESS", times=1) as fault:
            kafka.wait_until(lambda: consumer.poll(0.01) or kafka.requests("JoinGroup"), "a join")
            assert fault.count == 1
        kafka.wait_until(lambda: consumer.poll(0.01) or consumer.assignment(), "an assignment")
        with kafka.faults.offset_commit(error="NOT_COORDINATOR", times=1) as fault:
            kafka.produce("orders", "tea")
            kafka.wait_until(lambda: consumer.poll(0.01), "the record")
            consumer.commit()
            kafka.wait_until(lambda: consumer.poll(0.01) or kafka.committed("kitchen"), "the commit")
            assert fault.count == 1
        assert list(kafka.committed("kitchen").values()) == [1]
    finally:
        consumer.close()


def test_fenced_producer_is_refused_and_a_lost_answer_of_a_commit_is_asked_for_again(
    kafka: KafkaServer,
) -> None:
    with Producer(kafka.bootstrap, transactional_id="till") as producer:
        with kafka.faults.end_txn(drop="response", times=1) as fault:
            with producer.transaction():
                producer.send("orders", b"tea")
            assert fault.count == 1
        assert [r.value for r in kafka.records("orders", isolation_level="read_committed")] == [b"tea"]
        producer.begin_transaction()
        kafka.fence("till")
        delivery = producer.send("orders", b"cake")
        with pytest.raises(errors.FencedProducer):
            producer.commit_transaction()
        assert delivery.exception() is not None


def test_connections_are_lost_for_a_while(kafka: KafkaServer) -> None:
    fault = kafka.faults.inject(drop="request", seconds=3600)
    with Producer(kafka.bootstrap, delivery_timeout_ms=60_000) as producer:
        sent = producer.send("orders", b"tea")
        kafka.wait_until(lambda: fault.count > 1)
        kafka.clock.advance(hours=1)
        sent.result(DEADLINE_S)
        met = fault.count
        producer.send_and_wait("orders", b"cake")
        assert fault.count == met
    assert values(kafka) == [b"tea", b"cake"]

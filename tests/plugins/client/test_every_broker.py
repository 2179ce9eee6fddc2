"""The clients against every age of Apache Kafka, and against tidelog: one file for all.

What a release cannot do is a clear error, which the test of it states.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from functools import total_ordering
from typing import Any

import attrs
import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import LONG_SESSIONS, running_kafka, running_zookeeper, running_zookeeper_kafka
from tests.plugins.client_commands.piped import Shell
from tidelog.client import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    Admin,
    Consumer,
    ConsumerRecord,
    GroupOffset,
    NewTopic,
    Producer,
    SimpleConsumer,
    TopicPartition,
    errors,
)

NEWEST = "4.4.0"
WITH_ZOOKEEPER = ("2.8.2", "0.10.2.2", "0.8.2.2")
OLD = ("3.9.1", *WITH_ZOOKEEPER)
TIME = 1_700_000_000_000


@total_ordering
@attrs.frozen(order=False)
class Release:
    """A release of Apache Kafka."""

    numbers: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> Release:
        return cls(tuple(map(int, text.split("."))))

    def __lt__(self, other: object) -> bool:
        assert isinstance(other, str)
        return self.numbers < Release.of(other).numbers

    def __ge__(self, other: object) -> bool:
        return not self < other


@attrs.frozen
class AnyBroker:
    """A broker, and the release of Apache Kafka whose features it has."""

    bootstrap: str
    release: Release

    def new_topic(self) -> str:
        """A topic of two partitions, which keeps records of any age."""
        topic = f"every-{uuid.uuid4().hex[:12]}"
        if self.release >= "0.10.1":
            with Admin(self.bootstrap) as admin:
                admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "-1"})])
        return topic

    def codecs(self) -> list[str]:
        return ["none", "gzip", "snappy", "lz4", *(["zstd"] if self.release >= "2.1" else [])]


@pytest.fixture(scope="module")
def newest(shared_kafka: str) -> AnyBroker:
    return AnyBroker(shared_kafka, Release.of(NEWEST))


@pytest.fixture(scope="module")
def tidelog(shared_tidelog: str) -> AnyBroker:
    return AnyBroker(shared_tidelog, Release.of(NEWEST))


@pytest.fixture(
    scope="module", params=["tidelog", NEWEST, *(pytest.param(each, marks=pytest.mark.long) for each in OLD)]
)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyBroker]:
    name: str = request.param
    if name in ("tidelog", NEWEST):
        yield request.getfixturevalue("tidelog" if name == "tidelog" else "newest")
        return
    folder = tmp_path_factory.mktemp("old")
    with ExitStack() as stack:
        if name in WITH_ZOOKEEPER:
            zookeeper = stack.enter_context(running_zookeeper(folder / "zookeeper", settings=LONG_SESSIONS))
            settings = {
                "num.partitions": "2",
                "log.retention.hours": "1000000",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.min.isr": "1",
            }
            server: Any = running_zookeeper_kafka(name, folder / "kafka", zookeeper.connect, settings)
        else:
            server = running_kafka(folder, version=name)
        yield AnyBroker(stack.enter_context(server).bootstrap, Release.of(name))


def records_of(broker: AnyBroker, topic: str, **options: Any) -> list[ConsumerRecord]:
    """All records of both partitions, by partition and offset."""
    places = [TopicPartition(topic, index) for index in range(2)]
    with Consumer(broker.bootstrap, **options) as consumer:
        consumer.assign(places)
        consumer.seek_to_beginning()
        found: list[ConsumerRecord] = []
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < end for place, end in ends.items()):
            found += consumer.poll(0.1)
    return sorted(found, key=lambda record: (record.partition, record.offset))


def test_records_of_every_codec_are_in_the_order_of_sending(broker: AnyBroker) -> None:
    topic = broker.new_topic()
    expected: list[tuple[bytes | None, bytes | None]] = []
    for codec in broker.codecs():
        with Producer(broker.bootstrap, compression_type=codec, batch_size=2000) as producer:
            for number in range(300):
                value = None if number % 50 == 0 else b"%s %d" % (codec.encode(), number)
                key = b"%d" % number if number % 3 else None
                producer.send(topic, value, key, partition=number % 2, timestamp_ms=TIME + number)
                if number % 2:
                    expected.append((key, value))
    found = [each for each in records_of(broker, topic) if each.partition == 1]
    assert [(each.key, each.value) for each in found] == expected
    assert [each.offset for each in found] == list(range(len(expected)))
    stamped = broker.release >= "0.10"
    assert {each.timestamp_ms for each in found} == (
        {TIME + number for number in range(1, 300, 2)} if stamped else {-1}
    )


def test_deliveries_name_places_for_each_kind_of_acknowledgement(broker: AnyBroker) -> None:
    topic = broker.new_topic()
    with Producer(broker.bootstrap) as producer:
        assert producer.send_and_wait(topic, b"all", partition=1).offset == 0
    with Producer(broker.bootstrap, acks=1) as producer:
        assert producer.send_and_wait(topic, b"one", partition=1).offset == 1
    with Producer(broker.bootstrap, acks=0) as producer:
        assert producer.send_and_wait(topic, b"none", partition=1).offset == -1
    with Producer(broker.bootstrap) as producer:
        # Connections are served side by side, so that the record of acks 0 may be late.
        producer.send_and_wait(topic, b"last", partition=0)
    while len(found := records_of(broker, topic)) < 4:
        pass
    assert [each.value for each in found] == [b"last", b"all", b"one", b"none"]


def test_headers_are_there_from_0_11_on(broker: AnyBroker) -> None:
    topic = broker.new_topic()
    headers = [("a", b"1"), ("a", None)]
    with Producer(broker.bootstrap) as producer:
        delivery = producer.send(topic, b"x", headers=headers)
        if broker.release < "0.11":
            assert "too old for headers" in str(delivery.exception(DEADLINE_S))
            return
        delivery.result(DEADLINE_S)
    assert [list(each.headers) for each in records_of(broker, topic)] == [headers]


def test_zstd_is_there_from_2_1_on(broker: AnyBroker) -> None:
    with Producer(broker.bootstrap, compression_type="zstd") as producer:
        error = producer.send(broker.new_topic(), b"x").exception(DEADLINE_S)
    assert (error is None) == (broker.release >= "2.1"), error
    assert error is None or "too old for zstd" in str(error)


def test_idempotence_and_transactions_are_there_from_0_11_on(broker: AnyBroker) -> None:
    topic = broker.new_topic()
    with Producer(broker.bootstrap, enable_idempotence=True) as producer:
        error = producer.send(topic, b"idempotent", partition=0).exception(DEADLINE_S)
    with Producer(broker.bootstrap, transactional_id=topic) as producer:
        if broker.release < "0.11":
            assert isinstance(error, errors.UnsupportedByBroker)
            with pytest.raises(errors.UnsendableRequest, match="too old for transactions"):
                producer.init_transactions()
            return
        assert error is None
        with producer.transaction() as transaction:
            transaction.send(topic, b"committed", partition=0)
            transaction.send_offsets(topic, {TopicPartition(topic, 1): 7})
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0).result(DEADLINE_S)
        producer.abort_transaction()
    found = records_of(broker, topic, isolation_level="read_committed")
    assert [each.value for each in found] == [b"idempotent", b"committed"]
    with Admin(broker.bootstrap) as admin:
        assert admin.committed_offsets(topic)[TopicPartition(topic, 1)].offset == 7


def test_a_simple_consumer_fetches_from_offsets(broker: AnyBroker) -> None:
    topic = broker.new_topic()
    with Producer(broker.bootstrap) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=number % 2)
    places = {TopicPartition(topic, 0): 48, TopicPartition(topic, 1): 0}
    with SimpleConsumer(broker.bootstrap, max_partition_fetch_bytes=10) as consumer:
        fetched = consumer.fetch(topic, 0, 48)
        assert next(iter(fetched.records())).value == b"96"
    with SimpleConsumer(broker.bootstrap) as consumer:
        several: Any = consumer.multi_fetch(places)
        assert [next(iter(several[place].records())).value for place in places] == [b"96", b"1"]
        assert consumer.offsets_before(topic, 0, LATEST_TIMESTAMP) == [50]
        assert consumer.offsets_before(topic, 0, EARLIEST_TIMESTAMP) == [0]


def test_a_consumer_seeks_by_offset_and_from_0_10_1_on_by_time(broker: AnyBroker) -> None:
    topic = broker.new_topic()
    place = TopicPartition(topic, 0)
    with Producer(broker.bootstrap) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number, partition=0, timestamp_ms=TIME + 1000 * number)
    with Consumer(broker.bootstrap) as consumer:
        consumer.assign([place])
        consumer.seek(place, 15)
        assert consumer.poll(DEADLINE_S)[0].value == b"15"
        assert (consumer.beginning_offsets([place]), consumer.end_offsets([place])) == (
            {place: 0},
            {place: 20},
        )
        if broker.release >= "0.10.1":
            consumer.seek_to_time(TIME + 17_000)
            assert consumer.poll(DEADLINE_S)[0].value == b"17"
            assert consumer.offsets_for_times({place: TIME + 10**9}) == {place: None}


def test_members_of_a_group_share_partitions_from_0_9_on(broker: AnyBroker) -> None:
    topic = broker.new_topic()
    with Producer(broker.bootstrap) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, partition=number % 2)
    options: Any = {"group_id": topic, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 100}
    with Consumer(broker.bootstrap, **options) as first, Consumer(broker.bootstrap, **options) as second:
        if broker.release < "0.9":
            first.subscribe([topic])
            with pytest.raises(errors.ClientError, match="JoinGroup"):
                first.poll(DEADLINE_S)
            return
        for each in (first, second):
            each.subscribe([topic])
        found: list[bytes] = []
        while len(found) < 100 or not (first.assignment() and second.assignment()):
            found += [record.value for each in (first, second) for record in each.poll(0.05)]
            first.commit()
            second.commit()
        assert sorted(map(int, set(found))) == list(range(100))
        assert len(first.assignment()) == len(second.assignment()) == 1
    with Admin(broker.bootstrap) as admin:
        committed = admin.committed_offsets(topic)
        assert [committed[TopicPartition(topic, index)].offset for index in range(2)] == [50, 50]
        assert admin.describe_groups([topic])[topic].state == "Empty"
        assert topic in [each.group_id for each in admin.list_groups()]


def test_offsets_are_committed_without_members(broker: AnyBroker) -> None:
    topic = broker.new_topic()
    place = TopicPartition(topic, 0)
    with Producer(broker.bootstrap) as producer:
        producer.send_and_wait(topic, b"x", partition=0)
    with Consumer(broker.bootstrap, group_id=topic) as consumer:
        consumer.assign([place])
        consumer.commit({place: 1})
        found = consumer.committed([place])[place]
        assert found is not None
        assert found.offset == 1


def test_the_consumer_protocol_is_there_from_4_0_on(broker: AnyBroker) -> None:
    topic = broker.new_topic()
    with Producer(broker.bootstrap) as producer:
        producer.send_and_wait(topic, b"x", partition=0)
    options: Any = {"group_id": topic, "auto_offset_reset": "earliest", "group_protocol": "consumer"}
    with Consumer(broker.bootstrap, **options) as consumer:
        consumer.subscribe([topic])
        if broker.release < "4.0":
            with pytest.raises(errors.ClientError, match=r"ConsumerGroupHeartbeat|group_protocol='consumer'"):
                consumer.poll(DEADLINE_S)
        else:
            assert [each.value for each in consumer.poll(DEADLINE_S)] == [b"x"]


@pytest.mark.parametrize(
    ("api", "first"),
    [
        ("CreateTopics", "0.10.1"),
        ("DescribeConfigs", "0.11"),
        ("CreatePartitions", "1.0"),
        ("DeleteRecords", "0.11"),
        ("IncrementalAlterConfigs", "2.3"),
        ("OffsetDelete", "2.4"),
        ("DescribeClientQuotas", "2.6"),
    ],
)
def test_what_an_admin_client_asks_for_is_done_or_named(broker: AnyBroker, api: str, first: str) -> None:
    topic = broker.new_topic()
    place = TopicPartition(topic, 0)
    with Producer(broker.bootstrap) as producer:
        producer.send_and_wait(topic, b"x", partition=0)
    with Admin(broker.bootstrap) as admin:
        calls: dict[str, Any] = {
            "CreateTopics": lambda: admin.create_topics([NewTopic(f"{topic}-new", 1, 1)]),
            "DescribeConfigs": lambda: admin.describe_configs([topic]),
            "CreatePartitions": lambda: admin.create_partitions({topic: 3}),
            "DeleteRecords": lambda: admin.delete_records({place: 1}),
            "IncrementalAlterConfigs": lambda: admin.alter_configs({topic: []}),
            "OffsetDelete": lambda: _commit_and_delete(admin, topic, place),
            "DescribeClientQuotas": admin.describe_quotas,
        }
        if broker.release >= first:
            calls[api]()
        else:
            with pytest.raises(errors.UnsupportedByBroker, match=api):
                calls[api]()


def test_a_broker_chooses_partitions_and_replicas_from_2_4_on(broker: AnyBroker) -> None:
    topic = f"every-{uuid.uuid4().hex[:12]}"
    with Admin(broker.bootstrap) as admin:
        if broker.release >= "2.4":
            assert admin.create_topics([NewTopic(topic)])[topic].partitions > 0
        else:
            old = errors.UnsendableRequest if broker.release >= "0.10.1" else errors.UnsupportedByBroker
            with pytest.raises(old):
                admin.create_topics([NewTopic(topic)])


def _commit_and_delete(admin: Admin, group: str, place: TopicPartition) -> None:
    admin.commit_offsets(group, {place: GroupOffset(1)})
    admin.delete_offsets(group, [place])
    assert place not in admin.committed_offsets(group)


def test_a_cluster_and_its_topics_are_described(broker: AnyBroker) -> None:
    topic = broker.new_topic()
    with Producer(broker.bootstrap) as producer:
        producer.send_and_wait(topic, b"x", partition=0)
    with Admin(broker.bootstrap) as admin:
        assert [str(each) for each in admin.describe_cluster().brokers.values()] == [broker.bootstrap]
        assert topic in admin.list_topics()
        assert len(admin.describe_topics([topic])[topic].partitions) == 2
        assert admin.list_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)].offset == 1


def test_commands_send_and_print_records(broker: AnyBroker) -> None:
    topic = broker.new_topic()
    shell = Shell(broker.bootstrap)
    shell.produce(topic, "-K", ":", "-p", "0", given=b"a:1\nb:2\nc:3\n")
    assert shell.consume(f"{topic}:0", "-o", "-2", "-f", r"%k=%v\n") == b"b=2\nc=3\n"

"""Partitioners: the same partitions as the Java client and librdkafka, and records without a key."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Producer as LibrdkafkaProducer

from tests.clients.java_programs import run_inside_kafka
from tests.plugins.client.producer.fake_cluster import FakeCluster, FakeProducer
from tests.plugins.client.producer.test_real_producers import new_topic
from tests.tables import for_each
from tidelog.client import Producer
from tidelog.plugins.client.errors import EncodingFailed
from tidelog.plugins.client.producer.partitioners import chooser, crc32_partition, murmur2_partition

PARTITIONS = 7


def keys() -> list[bytes]:
    """10,000 keys of any length and any bytes; some have negative hashes."""
    chosen = random.Random(7)
    return [chosen.randbytes(chosen.choice((1, 2, 3, 4, 5, 8, 12, 40))) for _ in range(10_000)]


@for_each("partitioner", ("murmur2", "consistent"))
def test_partitions_of_keys_are_librdkafka_s(shared_tidelog: str, partitioner: str) -> None:
    topic = new_topic(shared_tidelog, PARTITIONS)
    theirs: dict[bytes, int] = {}

    def note(_error: Any, message: Any) -> None:
        theirs[message.key()] = message.partition()

    producer = LibrdkafkaProducer({"bootstrap.servers": shared_tidelog, "partitioner": partitioner})
    for key in keys():
        producer.produce(topic, b"", key, on_delivery=note)
        producer.poll(0)
    producer.flush()
    choose = murmur2_partition if partitioner == "murmur2" else crc32_partition
    assert {key: choose(key, PARTITIONS) for key in keys()} == theirs
    with Producer(shared_tidelog, partitioner=partitioner) as ours:
        sent = [(key, ours.send(topic, b"", key)) for key in keys()[:500]]
        assert {key: delivery.result().partition for key, delivery in sent}.items() <= theirs.items()


def test_partitions_of_keys_are_those_of_the_java_client() -> None:
    lines = "".join(f"{key.hex()}\n" for key in keys())
    theirs = run_inside_kafka("Partitions", [str(PARTITIONS)], lines).split()
    assert [str(murmur2_partition(key, PARTITIONS)) for key in keys()] == theirs


def sent_to(partitioner: Any, count: int = 700, key: bytes | None = None) -> Counter[int]:
    cluster = FakeCluster(PARTITIONS)
    producer = FakeProducer(cluster, partitioner=partitioner, batch_size=300)
    try:
        producer.send(b"", 0)
        producer.flush()
        sent = [producer.send(b"x" * 79, None, key) for _ in range(count)]
        producer.flush()
        return Counter(delivery.result().partition for delivery in sent)
    finally:
        cluster.driver.close()


def test_records_without_a_key_stick_to_a_partition_for_a_batch() -> None:
    assert len(sent_to("murmur2", 3)) == 1
    for partitioner in ("murmur2", "sticky", "consistent_random"):
        found = sent_to(partitioner)
        assert set(found) == set(range(PARTITIONS))
        # Three to a batch.
        assert sum(count % 3 for count in found.values()) <= 2


def test_round_robin_and_random_spread_each_record() -> None:
    assert sent_to("round_robin") == dict.fromkeys(range(PARTITIONS), 100)
    assert set(sent_to("random")) == set(range(PARTITIONS))
    assert set(sent_to("murmur2_random")) == set(range(PARTITIONS))


def test_keys_decide_but_for_those_that_ignore_them() -> None:
    assert sent_to("murmur2_random", key=b"k") == {murmur2_partition(b"k", PARTITIONS): 700}
    assert sent_to("consistent", key=b"k") == {crc32_partition(b"k", PARTITIONS): 700}
    # As in librdkafka.
    assert sent_to("consistent") == {0: 700}
    assert len(sent_to("consistent_random", key=b"")) > 1
    assert sent_to("round_robin", key=b"k") == dict.fromkeys(range(PARTITIONS), 100)


def test_a_partitioner_of_the_user() -> None:
    assert sent_to(lambda key, count: count - len(key or b"") - 1, key=b"xy") == {4: 700}
    for wrong, message in (
        (lambda _key, count: count, "returned 7, not"),
        (lambda _key: 0, "raised TypeError"),
    ):
        with pytest.raises(EncodingFailed, match=message):
            sent_to(wrong)
    with pytest.raises(ValueError, match="'murmur3' is none of murmur2"):
        chooser("murmur3")


def test_records_go_to_partitions_with_a_leader() -> None:
    cluster = FakeCluster(PARTITIONS)
    for part in cluster.partitions[1:]:
        part.leader = -1
    for partitioner in ("sticky", "round_robin", "random"):
        producer = FakeProducer(cluster, partitioner=partitioner)
        sent = [producer.send(b"x", None) for _ in range(30)]
        producer.flush()
        assert {delivery.result().partition for delivery in sent} == {0}
    cluster.driver.close()

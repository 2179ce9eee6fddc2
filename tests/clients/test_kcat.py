"""kcat, as people have it at hand to look into a broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from .kcat import kcat, read_with_kcat

if TYPE_CHECKING:
    from .brokers import Broker

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LINES = b"".join(b"key %d:value %d\n" % (number, number) for number in range(100))


def _produce(broker: Broker, topic: str, stdin: bytes, *arguments: str) -> None:
    kcat(broker.bootstrap, "-P", "-t", topic, "-p", "0", *arguments, stdin=stdin)


def test_the_metadata_names_brokers_topics_and_partitions(broker: Broker, topic: str) -> None:
    _produce(broker, topic, b"hello\n")
    told = json.loads(kcat(broker.bootstrap, "-L", "-J"))
    assert [each["name"] for each in told["brokers"]] == [broker.bootstrap]
    described = {each["topic"]: each for each in told["topics"]}[topic]
    leader = told["brokers"][0]["id"]
    assert described["partitions"] == [
        {"partition": 0, "leader": leader, "replicas": [{"id": leader}], "isrs": [{"id": leader}]}
    ]
    assert f'topic "{topic}" with 1 partitions' in kcat(broker.bootstrap, "-L")


@pytest.mark.parametrize("codec", CODECS)
def test_lines_go_in_and_come_out(codec: str, broker: Broker, topic: str) -> None:
    _produce(broker, topic, LINES, "-K", ":", "-z", codec)
    records = read_with_kcat(broker.bootstrap, topic)
    assert [(record.offset, record.key, record.value) for record in records] == [
        (number, f"key {number}".encode(), f"value {number}".encode()) for number in range(100)
    ]


def test_null_keys_null_values_and_headers(broker: Broker, topic: str) -> None:
    _produce(broker, topic, b"key:\n:value\n", "-K", ":", "-Z", "-H", "a=1", "-H", "b=")
    records = read_with_kcat(broker.bootstrap, topic)
    assert [(record.key, record.value) for record in records] == [(b"key", None), (None, b"value")]
    headers = kcat(broker.bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%h\n")
    assert headers.splitlines() == ["a=1,b=", "a=1,b="]


def test_the_last_records_and_a_range(broker: Broker, topic: str) -> None:
    _produce(broker, topic, LINES)
    last = kcat(broker.bootstrap, "-C", "-t", topic, "-p", "0", "-o", "-3", "-e", "-q", "-f", "%o ")
    assert last.split() == ["97", "98", "99"]
    some = kcat(broker.bootstrap, "-C", "-t", topic, "-p", "0", "-o", "40", "-c", "2", "-q", "-f", "%o ")
    assert some.split() == ["40", "41"]


def test_offsets_by_time(broker: Broker, topic: str) -> None:
    _produce(broker, topic, LINES)
    stamped = [record.timestamp_ms for record in read_with_kcat(broker.bootstrap, topic)]
    for time_ms, offset in ((stamped[0], 0), (stamped[-1] + 1000, -1), (-1, 100), (-2, 0)):
        asked = f"{topic}:0:{time_ms}"
        assert kcat(broker.bootstrap, "-Q", "-t", asked).strip() == f"{topic} [0] offset {offset}"

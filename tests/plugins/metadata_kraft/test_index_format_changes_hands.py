"""A topic with an index format that Apache Kafka does not know changes hands, and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins.metadata_kraft.hands import Client, kafka_on, tidelog_on

CONFIG = {"index.format": "memory"}


def index_files(data: Path) -> list[str]:
    """Names of the index files of partition 0 of the topic."""
    return [path.name for path in (data / "orders-0").iterdir() if path.suffix in (".index", ".timeindex")]


@pytest.mark.long
def test_kafka_serves_a_topic_whose_indexes_are_in_memory_and_gives_it_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka, tidelog = kafka_on(data, tmp_path / "kafka"), tidelog_on(data, tmp_path / "tidelog")
    try:
        tidelog.start()
        client = Client(tidelog.bootstrap)
        client.create("orders", 1, CONFIG)
        client.produce("orders", 0, [b"t%d" % number for number in range(100)])
        before = client.see()
        tidelog.stop()
        assert index_files(data) == []

        kafka.start()
        client = Client(kafka.bootstrap)
        assert client.see() == before
        client.produce("orders", 0, [b"k1", b"k2"])
        before = client.see()
        kafka.stop()
        assert len(index_files(data)) == 2

        tidelog.start()
        client = Client(tidelog.bootstrap)
        assert client.see() == before
        assert client.topic_config("orders") == CONFIG
        tidelog.stop()
        assert index_files(data) == []
    finally:
        kafka.stop()
        tidelog.stop()

"""Files of a next segment that a killed broker leaves do not disturb Apache Kafka, which removes them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.plugins.metadata_kraft.hands import Client, kafka_on, tidelog_on


def spare_files(data: Path) -> list[str]:
    """Names of files that were created ahead, in partition 0 of the topic."""
    return [path.name for path in (data / "orders-0").iterdir() if path.name.endswith(".next.deleted")]


@pytest.mark.long
def test_kafka_takes_over_from_a_killed_broker_with_files_of_a_next_segment(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka, tidelog = kafka_on(data, tmp_path / "kafka"), tidelog_on(data, tmp_path / "tidelog")
    try:
        tidelog.start()
        client = Client(tidelog.bootstrap)
        client.create("orders", 1, {"segment.bytes": str(1 << 20), "preallocate": "true"})
        for number in range(8):
            client.produce("orders", 0, [b"%d" % number * 100_000])
        before = client.see()
        deadline = time.monotonic() + 20
        while len(spare_files(data)) < 3:
            assert time.monotonic() < deadline, "no files were created ahead"
            time.sleep(0.05)
        tidelog.kill()

        kafka.start()
        assert Client(kafka.bootstrap).see() == before
        assert spare_files(data) == []
        kafka.stop()

        tidelog.start()
        assert Client(tidelog.bootstrap).see() == before
    finally:
        kafka.stop()
        tidelog.stop()

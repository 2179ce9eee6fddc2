"""Sources of every age: Apache Kafka 0.8 to 4.4, into tidelog and into the newest Apache Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.peers import LONG_SESSIONS, running_kafka, running_zookeeper, running_zookeeper_kafka
from tests.plugins.mirror.clusters import SETTINGS, content, copied, matching, settings, without_offsets
from tidelog.client import Producer
from tidelog.kernel.clock import wall_clock_ms
from tidelog.plugins.client import BlockingClient, GroupOffset, NewTopic, TopicPartition, or_raise
from tidelog.plugins.mirror.settings import Renaming

NEWEST, OLDEST = "4.4.0", "0.8.2.2"
WITH_ZOOKEEPER = ("2.8.2", "0.10.2.2", OLDEST)
TIME = wall_clock_ms()
"""Records that are older would soon be deleted."""


@pytest.fixture(scope="module", params=[NEWEST, *WITH_ZOOKEEPER])
def source(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Release and bootstrap servers."""
    release: str = request.param
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp(release)
        if release == NEWEST:
            yield release, stack.enter_context(running_kafka(folder)).bootstrap
        else:
            zookeeper = stack.enter_context(running_zookeeper(folder / "zookeeper", settings=LONG_SESSIONS))
            server = running_zookeeper_kafka(release, folder / "kafka", zookeeper.connect)
            yield release, stack.enter_context(server).bootstrap


def test_all_records_are_copied(source: tuple[str, str], real_broker: str) -> None:
    release, bootstrap = source
    name = f"t{uuid.uuid4().hex}"
    has_headers = release not in ("0.10.2.2", OLDEST)
    if release != OLDEST:
        with BlockingClient(bootstrap, settings=SETTINGS) as client:
            or_raise(client.create_topics([NewTopic(name, 1, 1)]))
    headers = [("h", b"1")] if has_headers else []
    expected: list[tuple[object, ...]] = []
    for codec in ("none", "gzip", "snappy", "lz4"):
        with Producer(bootstrap, compression_type=codec, batch_size=2000) as producer:
            for number in range(100):
                key, value = b"%d" % number, b"%d-%s" % (number, codec.encode() * 10)
                producer.send(name, value, key, timestamp_ms=TIME + number, headers=headers)
                # Brokers before Apache Kafka 0.10 have no timestamps.
                time_ms = -1 if release == OLDEST else TIME + number
                expected.append((key, value, time_ms, tuple(headers)))
    mirror = settings(name, bootstrap, name, renaming=Renaming(f"{release}."), groups=matching(name))
    if release != OLDEST:
        with BlockingClient(bootstrap, settings=SETTINGS) as client:
            or_raise(client.commit_offsets(name, {TopicPartition(name, 0): GroupOffset(150)}))
    copied(mirror, real_broker)
    copied(mirror, real_broker)
    assert without_offsets(content(real_broker, f"{release}.{name}")) == expected
    if release != OLDEST:
        place = TopicPartition(f"{release}.{name}", 0)
        with BlockingClient(real_broker, settings=SETTINGS) as client:
            assert client.committed_offsets(name, [place])[place].offset == 150

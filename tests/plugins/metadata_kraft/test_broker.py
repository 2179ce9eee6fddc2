"""What a whole broker has of the metadata log: epochs of its partitions, its registration, adopted topics."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.metadata_changes import topics_of
from tests.plugins.storage_file.files import batches_in
from tidelog.kernel.broker import Broker
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.metadata_kraft.store import KraftMetadata

LOG = "t-0/00000000000000000000.log"


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    return {"storage": "file", "log.dirs": str(tmp_path / "data")}


def remembered_epoch(broker: Broker) -> int:
    (record,) = topics_of(broker.metadata)
    return record.partitions[0].leader_epoch


def only_partition(broker: Broker) -> UnifiedLog:
    return broker.topics.get("t").partitions[0].log


async def test_partitions_are_led_in_the_epochs_of_the_log(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    for start in range(3):
        async with running_broker(settings) as broker:
            if not start:
                await broker.topics.create(TopicSpec("t", 1))
            partition = only_partition(broker)
            assert partition.leader_epoch == remembered_epoch(broker) == 2 * start
            partition.append_nowait(make_batch())
    headers = [header for _, header in batches_in(tmp_path / "data" / LOG)]
    assert [header.leader_epoch for header in headers] == [0, 2, 4]
    checkpoint = (tmp_path / "data/t-0/leader-epoch-checkpoint").read_text()
    assert checkpoint == "0\n3\n0 0\n2 1\n4 2\n"


async def test_an_epoch_that_only_the_partition_knows_is_told_to_the_log(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    async with running_broker(settings) as broker:
        await broker.topics.create(TopicSpec("t", 1))
        only_partition(broker).append_nowait(make_batch())
    (tmp_path / "data/t-0/leader-epoch-checkpoint").write_text("0\n1\n9 0\n")
    async with running_broker(settings) as broker:
        assert only_partition(broker).leader_epoch == remembered_epoch(broker) == 9


async def test_a_broker_registers_where_it_is_reached(settings: dict[str, object]) -> None:
    async with running_broker(settings) as broker:
        metadata = broker.metadata
        assert isinstance(metadata, KraftMetadata)
        registration = metadata.records.brokers[1]
        (endpoint,) = registration.end_points
        assert f"{endpoint.host}:{endpoint.port}" == broker.listeners["PLAINTEXT"]
        assert (registration.fenced, registration.in_controlled_shutdown) == (False, False)
    assert (registration.fenced, registration.in_controlled_shutdown) == (True, True)


async def test_an_adopted_topic_is_served_and_marked(tmp_path: Path, settings: dict[str, object]) -> None:
    async with running_broker(settings) as broker:
        await broker.topics.create(TopicSpec("t", 1))
        only_partition(broker).append_nowait(make_batch())
        assert not broker.topics.get("t").adopted
    shutil.rmtree(tmp_path / "data/__cluster_metadata-0")
    async with running_broker(settings) as broker:
        topic = broker.topics.get("t")
        assert topic.adopted
        assert topic.partitions[0].log.log_end_offset == 1

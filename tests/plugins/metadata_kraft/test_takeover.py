"""Whose metadata log this broker carries on, and whose it refuses."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import attrs
import pytest

from tests.plugins.metadata_kraft.scenes import LOG, logged, metadata_dir, metadata_of
from tests.plugins.metadata_kraft.vectors import vectors_of
from tests.plugins.storage_file.files import LogDirectoryScene
from tidelog.kernel.config import Config
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.seams.metadata import TopicRecord
from tidelog.plugins import storage_file
from tidelog.plugins.metadata_kraft.encoding import data_batch, frame
from tidelog.plugins.metadata_kraft.image import MetadataImage, credential_record
from tidelog.plugins.metadata_kraft.records import cluster, control, topics
from tidelog.plugins.metadata_kraft.records.settings import BROKER_RESOURCE
from tidelog.plugins.metadata_kraft.takeover import foreign_settings

UNKNOWN = bytes.fromhex("016e02deadbeef")
TOPIC = bytes(range(16))


def end_of(path: Path) -> tuple[int, int]:
    """Next offset and epoch of a log file."""
    content = path.read_bytes()
    position, offset, epoch = 0, 0, 0
    while position < len(content):
        header = parse_header(content, position)
        position += header.size
        offset, epoch = header.next_offset, header.leader_epoch
    return offset, epoch


async def reopen_with(scene: LogDirectoryScene, values: Sequence[bytes]) -> None:
    """Add records to the log of a closed storage, as another controller would have, and open it again."""
    await scene.storage.close()
    path = metadata_dir(scene) / LOG
    offset, epoch = end_of(path)
    with path.open("ab") as file:
        file.write(data_batch(values, offset, epoch, 5))
    scene.storage = scene.new_storage()
    await scene.open()


async def test_takeover_keeps_foreign_records_through_restarts_and_snapshots(
    scene: LogDirectoryScene, caplog: pytest.LogCaptureFixture
) -> None:
    kept = vectors_of("DELEGATION_TOKEN_RECORD", "ACCESS_CONTROL_ENTRY_RECORD")
    await reopen_with(scene, [*kept, UNKNOWN])
    assert "1 records of type 110 are unknown to this broker; they are kept as they are" in caplog.text
    scene.clock.advance(3_600_001)
    await metadata_of(scene).maintain()
    await scene.reopen()
    assert list(metadata_of(scene).image.kept.values()) == [*kept, UNKNOWN]


async def test_foreign_settings_of_a_broker_are_kept_with_a_warning(
    scene: LogDirectoryScene, caplog: pytest.LogCaptureFixture
) -> None:
    # As Apache Kafka writes it: broker 1 has ssl.keystore.location = 2.
    value = bytes.fromhex("01040004 0231 16 73736c2e6b657973746f72652e6c6f636174696f6e 0232 00")
    assert "ssl.keystore" not in caplog.text
    with caplog.at_level(logging.WARNING):
        await reopen_with(scene, [value])
    assert "and kept for Apache Kafka: ssl.keystore.location (broker 1)" in caplog.text


async def test_takeover_aborts_an_open_transaction_of_the_metadata_log(scene: LogDirectoryScene) -> None:
    begun = [
        frame(control.BeginTransactionRecord(name="x")),
        frame(topics.TopicRecord(name="t", topic_id=TOPIC)),
    ]
    await reopen_with(scene, begun)
    assert metadata_of(scene).topics() == []
    await metadata_of(scene).put_topic(TopicRecord("u", uuid4(), 1))
    await scene.reopen()
    assert [topic.name for topic in metadata_of(scene).topics()] == ["u"]
    assert ["ABORT_TRANSACTION"] in logged(metadata_dir(scene) / LOG)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([bytes.fromhex("010303")], r"offset \d+: PARTITION_RECORD has version 3, this broker knows up to 2"),
        ([frame(topics.RemoveTopicRecord(topic_id=TOPIC))], "refers to the topic .*, which is unknown"),
        ([frame(cluster.FeatureLevelRecord(name="metadata.version", feature_level=31))],
         "has metadata.version 31, .* newer Apache Kafka"),
        ([frame(cluster.FeatureLevelRecord(name="metadata.version", feature_level=16))],
         "has metadata.version 16, .*kafka-features.sh"),
        ([frame(topics.TopicRecord(name="t", topic_id=TOPIC)),
          frame(topics.PartitionRecord(topic_id=TOPIC, partition_id=0, replicas=[1, 2], isr=[1]))],
         "partition 0 of topic t has its replicas on the nodes 1, 2, not on node 1 alone"),
        ([frame(topics.TopicRecord(name="t", topic_id=TOPIC)),
          frame(topics.PartitionRecord(topic_id=TOPIC, partition_id=1, replicas=[1], isr=[1]))],
         "topic t has the partitions 1, which do not count from 0"),
    ],
)  # fmt: skip
async def test_check_takeover_refuses_unsupported_records_and_leaves_the_log_unchanged(
    scene: LogDirectoryScene, values: list[bytes], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        await reopen_with(scene, values)
    assert (scene.log_dir / ".kafka_cleanshutdown").exists()
    size = (metadata_dir(scene) / LOG).stat().st_size
    with pytest.raises(ConfigError, match=reason):
        await scene.new_storage().open()
    assert (metadata_dir(scene) / LOG).stat().st_size == size


def as_node_2(scene: LogDirectoryScene) -> None:
    scene.node_id = 2
    path = scene.log_dir / "meta.properties"
    path.write_text(path.read_text().replace("node.id=1", "node.id=2"))


def static_quorum(scene: LogDirectoryScene, voters: Sequence[int]) -> None:
    """Make the log one whose voters are configured: without the records that name them."""
    for path in metadata_dir(scene).glob("*"):
        path.unlink()
    state = {"clusterId": "", "leaderId": 1, "leaderEpoch": 5, "votedId": -1, "appliedOffset": 0}
    state |= {"currentVoters": [{"voterId": voter} for voter in voters], "data_version": 0}
    (metadata_dir(scene) / "quorum-state").write_text(json.dumps(state))
    (metadata_dir(scene) / LOG).write_bytes(b"")


def other_directory(scene: LogDirectoryScene) -> None:
    path = scene.log_dir / "meta.properties"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("directory.id")]
    path.write_text("\n".join([*lines, "directory.id=PwMINTJQSKbVpEc_IC7zaw", ""]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (as_node_2, r"metadata log of the controllers 1, but this broker's node.id is 2.*Set node.id"),
        (
            lambda scene: static_quorum(scene, [1, 2, 3]),
            "controllers 1, 2, 3, but this broker's node.id is 1",
        ),
        (other_directory, "votes with the directory .*, but meta.properties calls this one PwMINTJQ"),
        (
            lambda scene: (metadata_dir(scene) / "quorum-state").write_text("{}"),
            "quorum-state cannot be used",
        ),
    ],
)
async def test_check_takeover_refuses_a_metadata_log_of_other_voters(
    scene: LogDirectoryScene, change: Callable[[LogDirectoryScene], object], reason: str
) -> None:
    await scene.storage.close()
    change(scene)
    with pytest.raises(ConfigError, match=reason):
        await scene.new_storage().open()


async def test_takeover_keeps_a_static_quorum_static(scene: LogDirectoryScene) -> None:
    await scene.storage.close()
    static_quorum(scene, [1])
    scene.storage = scene.new_storage()
    await scene.open()
    await metadata_of(scene).put_topic(TopicRecord("t", uuid4(), 1))
    await scene.reopen()
    assert [topic.name for topic in metadata_of(scene).topics()] == ["t"]
    assert logged(metadata_dir(scene) / LOG)[0] == ["control 2"]
    state = json.loads((metadata_dir(scene) / "quorum-state").read_text())
    assert state == {
        "clusterId": "", "leaderId": 1, "leaderEpoch": 7, "votedId": -1, "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}], "data_version": 0,
    }  # fmt: skip


async def test_takeover_keeps_scram_credentials_of_the_bootstrap_checkpoint(scene: LogDirectoryScene) -> None:
    await scene.storage.close()
    bootstrap = scene.log_dir / "bootstrap.checkpoint"
    content = bootstrap.read_bytes()
    first = parse_header(content).size
    second = parse_header(content, first)
    features = content[first : first + second.size]
    credential = data_batch(vectors_of("USER_SCRAM_CREDENTIAL_RECORD"), second.next_offset, 0, 5)
    bootstrap.write_bytes(content[:first] + features + credential + content[first + second.size :])
    static_quorum(scene, [1])
    scene.storage = scene.new_storage()
    await scene.open()
    image = metadata_of(scene).image
    assert [frame(credential_record(*each)) for each in image.credentials.items()] == vectors_of(
        "USER_SCRAM_CREDENTIAL_RECORD"
    )


def test_topic_record_equality_ignores_leader_epochs() -> None:
    record = TopicRecord("t", uuid4(), 1)
    assert attrs.evolve(record, leader_epochs=(5,)) == record


def test_foreign_settings_leave_out_keys_that_count_here() -> None:
    image = MetadataImage()
    image.configs[BROKER_RESOURCE, "1"] = {
        "message.max.bytes": "5",
        "log.segment.bytes": "2000000",
        "num.replica.fetchers": "2",
    }
    counting = Config.from_mapping({}, storage_file.tidelog_config_keys()).keys.dynamic_names()
    assert foreign_settings(image, counting) == ["num.replica.fetchers (broker 1)"]

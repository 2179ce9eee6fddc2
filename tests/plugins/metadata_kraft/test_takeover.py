"""Whose metadata log this broker carries on, and whose it refuses."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from tests.metadata_changes import put_topics, topics_of
from tests.plugins.metadata_kraft.metadata_log import LOG, logged, metadata_dir, metadata_of
from tests.plugins.metadata_kraft.vectors import vectors_of
from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel.config import Config
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.metadata import topic_image
from tidelog.kernel.records.batch import parse_header
from tidelog.plugins.metadata_kraft.encoding import data_batch, frame
from tidelog.plugins.metadata_kraft.image import RecordImage, credential_record
from tidelog.plugins.metadata_kraft.records import cluster, control, topics
from tidelog.plugins.metadata_kraft.records.settings import BROKER_RESOURCE
from tidelog.plugins.metadata_kraft.snapshots import write_snapshot
from tidelog.plugins.metadata_kraft.takeover import foreign_settings
from tidelog.plugins.storage_file import plugin as storage_file

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


async def reopen_with(harness: LogDirectoryHarness, values: Sequence[bytes]) -> None:
    """Add records to the log of a closed storage, as another controller would have, and open it again."""
    await harness.close()
    path = metadata_dir(harness) / LOG
    offset, epoch = end_of(path)
    with path.open("ab") as file:
        file.write(data_batch(values, offset, epoch, 5))
    await harness.open_again()


async def test_takeover_keeps_foreign_records_through_restarts_and_snapshots(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    acls = vectors_of("ACCESS_CONTROL_ENTRY_RECORD")
    await reopen_with(harness, [*acls, UNKNOWN])
    assert "1 records of type 110 are unknown to this broker; they are kept as they are" in caplog.text
    harness.clock.advance(3_600_001)
    await metadata_of(harness).maintain()
    await harness.reopen()
    assert list(metadata_of(harness).records.kept.values()) == [UNKNOWN]
    assert [entry.principal for entry in metadata_of(harness).image.acls.values()] == ["User:bob"]


async def test_foreign_settings_of_a_broker_are_kept_with_a_warning(
    harness: LogDirectoryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    # As Apache Kafka writes it: broker 1 has ssl.keystore.location = 2.
    value = bytes.fromhex("01040004 0231 16 73736c2e6b657973746f72652e6c6f636174696f6e 0232 00")
    assert "ssl.keystore" not in caplog.text
    with caplog.at_level(logging.WARNING):
        await reopen_with(harness, [value])
    assert "and kept for Apache Kafka: ssl.keystore.location (broker 1)" in caplog.text


async def test_takeover_aborts_an_open_transaction_of_the_metadata_log(harness: LogDirectoryHarness) -> None:
    begun = [
        frame(control.BeginTransactionRecord(name="x")),
        frame(topics.TopicRecord(name="t", topic_id=TOPIC)),
    ]
    await reopen_with(harness, begun)
    assert topics_of(metadata_of(harness)) == []
    await put_topics(metadata_of(harness), topic_image("u", uuid4(), 1))
    await harness.reopen()
    assert [topic.name for topic in topics_of(metadata_of(harness))] == ["u"]
    assert ["ABORT_TRANSACTION"] in logged(metadata_dir(harness) / LOG)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([bytes.fromhex("010303")], r"offset \d+: PARTITION_RECORD has version 3, this broker knows up to 2"),
        ([frame(topics.RemoveTopicRecord(topic_id=TOPIC))], "refers to the topic .*, which is unknown"),
        ([frame(cluster.FeatureLevelRecord(name="metadata.version", feature_level=34))],
         "has metadata.version 34, .* newer Apache Kafka"),
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
    harness: LogDirectoryHarness, values: list[bytes], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        await reopen_with(harness, values)
    assert (harness.log_dir / ".kafka_cleanshutdown").exists()
    size = (metadata_dir(harness) / LOG).stat().st_size
    with pytest.raises(ConfigError, match=reason):
        await harness.open_again()
    assert (metadata_dir(harness) / LOG).stat().st_size == size


def as_node_2(harness: LogDirectoryHarness) -> None:
    harness.node_id = 2
    path = harness.log_dir / "meta.properties"
    path.write_text(path.read_text().replace("node.id=1", "node.id=2"))


def static_quorum(harness: LogDirectoryHarness, voters: Sequence[int]) -> None:
    """Make the log one whose voters are configured: without the records that name them."""
    for path in metadata_dir(harness).glob("*"):
        path.unlink()
    state = {"clusterId": "", "leaderId": 1, "leaderEpoch": 5, "votedId": -1, "appliedOffset": 0}
    state |= {"currentVoters": [{"voterId": voter} for voter in voters], "data_version": 0}
    (metadata_dir(harness) / "quorum-state").write_text(json.dumps(state))
    (metadata_dir(harness) / LOG).write_bytes(b"")


def other_directory(harness: LogDirectoryHarness) -> None:
    path = harness.log_dir / "meta.properties"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("directory.id")]
    path.write_text("\n".join([*lines, "directory.id=PwMINTJQSKbVpEc_IC7zaw", ""]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (as_node_2, r"metadata log of the controllers 1, but this broker's node.id is 2.*Set node.id"),
        (
            lambda harness: static_quorum(harness, [1, 2, 3]),
            "controllers 1, 2, 3, but this broker's node.id is 1",
        ),
        (other_directory, "votes with the directory .*, but meta.properties calls this one PwMINTJQ"),
        (
            lambda harness: (metadata_dir(harness) / "quorum-state").write_text("{}"),
            "quorum-state cannot be used",
        ),
    ],
)
async def test_check_takeover_refuses_a_metadata_log_of_other_voters(
    harness: LogDirectoryHarness, change: Callable[[LogDirectoryHarness], object], reason: str
) -> None:
    await harness.close()
    change(harness)
    with pytest.raises(ConfigError, match=reason):
        await harness.open_again()


async def test_takeover_keeps_a_static_quorum_static(harness: LogDirectoryHarness) -> None:
    await harness.close()
    static_quorum(harness, [1])
    await harness.open_again()
    await put_topics(metadata_of(harness), topic_image("t", uuid4(), 1))
    await harness.reopen()
    assert [topic.name for topic in topics_of(metadata_of(harness))] == ["t"]
    assert logged(metadata_dir(harness) / LOG)[0] == ["control 2"]
    state = json.loads((metadata_dir(harness) / "quorum-state").read_text())
    assert state == {
        "clusterId": "", "leaderId": 1, "leaderEpoch": 7, "votedId": -1, "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}], "data_version": 0,
    }  # fmt: skip


FORMAT_SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
LEVELS_33 = {"metadata.version": 33, "share.version": 2, "transaction.version": 2}


def formatted_with(path: Path, levels: Mapping[str, int], *values: bytes) -> None:
    """Write what StorageTool formats with `controller.quorum.voters`: levels, and credentials."""
    features = [
        frame(cluster.FeatureLevelRecord(name=name, feature_level=level)) for name, level in levels.items()
    ]
    write_snapshot(
        path, 0, [control.SnapshotHeaderRecord(last_contained_log_timestamp=5)], [*features, *values], 5
    )


@pytest.mark.parametrize(
    ("file", "level"), [(FORMAT_SNAPSHOT, 33), (FORMAT_SNAPSHOT, 17), ("bootstrap.checkpoint", 30)]
)
async def test_takeover_begins_a_log_with_what_kafka_formatted(
    harness: LogDirectoryHarness, file: str, level: int
) -> None:
    """Since 4.4 that is in the snapshot, before in a file of its own (KIP-1170)."""
    await harness.close()
    static_quorum(harness, [1])
    credential = vectors_of("USER_SCRAM_CREDENTIAL_RECORD")
    formatted_with(harness.log_dir / file, {**LEVELS_33, "metadata.version": level}, *credential)
    await harness.open_again()
    await harness.reopen()
    image = metadata_of(harness).records
    assert image.features == {**LEVELS_33, "metadata.version": level}
    assert [frame(credential_record(*each)) for each in image.credentials.items()] == credential
    log = logged(metadata_dir(harness) / LOG)
    assert log[1][:4] == ["BEGIN_TRANSACTION", "FEATURE_LEVEL", "FEATURE_LEVEL", "FEATURE_LEVEL"]
    assert sum(batch.count("BEGIN_TRANSACTION") for batch in log) == 1


async def test_the_format_snapshot_is_without_effect_once_the_log_has_levels(
    harness: LogDirectoryHarness,
) -> None:
    """As for Apache Kafka 4.4 after a start of 4.3, whose log has no level but metadata.version."""
    await harness.close()
    static_quorum(harness, [1])
    formatted_with(harness.log_dir / FORMAT_SNAPSHOT, {**LEVELS_33, "metadata.version": 30})
    level = frame(cluster.FeatureLevelRecord(name="metadata.version", feature_level=30))
    (metadata_dir(harness) / LOG).write_bytes(data_batch([level], 0, 1, 5))
    await harness.open_again()
    assert metadata_of(harness).records.features == {"metadata.version": 30}


@pytest.mark.parametrize("file", [FORMAT_SNAPSHOT, "bootstrap.checkpoint"])
async def test_check_takeover_refuses_a_new_directory_of_a_newer_kafka(
    harness: LogDirectoryHarness, file: str
) -> None:
    await harness.close()
    static_quorum(harness, [1])
    formatted_with(harness.log_dir / file, {"metadata.version": 34})
    with pytest.raises(ConfigError, match=r"has metadata\.version 34, .* newer Apache Kafka"):
        await harness.open_again()
    assert (metadata_dir(harness) / LOG).stat().st_size == 0


def test_foreign_settings_leave_out_keys_that_count_here() -> None:
    image = RecordImage()
    image.configs[BROKER_RESOURCE, "1"] = {
        "message.max.bytes": "5",
        "log.segment.bytes": "2000000",
        "num.replica.fetchers": "2",
    }
    counting = Config.from_mapping({}, storage_file.tidelog_config_keys()).keys.dynamic_names()
    assert foreign_settings(image, counting) == ["num.replica.fetchers (broker 1)"]

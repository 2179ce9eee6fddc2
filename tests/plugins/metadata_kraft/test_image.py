"""What the metadata log adds up to."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.metadata_kraft.vectors import read_vectors, vectors_of
from tidelog.kernel.metadata import PartitionImage, TopicImage, topic_image
from tidelog.kernel.seams.metadata import BrokerRegistration
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.metadata_kraft.changes import Change, Changes
from tidelog.plugins.metadata_kraft.delivery import ImageDelivery
from tidelog.plugins.metadata_kraft.encoding import UnreadableMetadataRecord, frame, unframe
from tidelog.plugins.metadata_kraft.formatting import FORMAT_LEVELS
from tidelog.plugins.metadata_kraft.image import RecordImage, image_records
from tidelog.plugins.metadata_kraft.reading import MetadataReplay
from tidelog.plugins.metadata_kraft.records import cluster, settings, topics
from tidelog.plugins.metadata_kraft.records.control import SnapshotHeaderRecord
from tidelog.plugins.metadata_kraft.replay import apply_message, apply_record
from tidelog.plugins.metadata_kraft.snapshots import read_snapshot, write_snapshot

NODE = 1
DIRECTORY = bytes(range(16))
UNKNOWN = bytes.fromhex("016e02deadbeef")


def directory_of(_: TopicPartition) -> bytes:
    return DIRECTORY


def image_of(values: Iterable[bytes]) -> RecordImage:
    image = RecordImage()
    for value in values:
        apply_record(image, unframe(value))
    return image


def applied(image: RecordImage, changes: Iterable[Change]) -> RecordImage:
    for message, version in list(changes):
        apply_record(image, unframe(frame(message, version)))
    return image


def new_image() -> tuple[RecordImage, Changes]:
    image = RecordImage(features=dict(FORMAT_LEVELS))
    return image, Changes(image, NODE, directory_of)


def through_a_snapshot(image: RecordImage, path: Path) -> RecordImage:
    write_snapshot(path, 3, [SnapshotHeaderRecord(last_contained_log_timestamp=5)], image_records(image), 7)
    replay = MetadataReplay()
    for header, batch in read_snapshot(path):
        replay.feed(header, batch, from_snapshot=True)
    return replay.image


def test_unregister_controller_record_removes_the_registration_also_from_snapshots(tmp_path: Path) -> None:
    # By its schema (KIP-1312): type 29, version 0, controller 2.
    removal = bytes.fromhex("011d000000000200")
    registered = [
        cluster.RegisterControllerRecord(
            controller_id=node, incarnation_id=DIRECTORY, zk_migration_ready=False, end_points=[], features=[]
        )
        for node in (1, 2)
    ]
    image = image_of([*map(frame, registered), removal])
    assert list(image.controllers) == [1]
    assert through_a_snapshot(image, tmp_path / "snapshot") == image
    assert not list(image.kept.values())


names = st.sampled_from(["a", "b", "orders", "ünï"])
records = st.builds(
    topic_image,
    names,
    st.uuids(),
    st.integers(1, 4),
    st.dictionaries(st.sampled_from(["retention.ms", "cleanup.policy", "strange"]), st.text(max_size=5)),
    st.lists(st.integers(0, 9), max_size=4).map(tuple),
)
steps = st.one_of(
    records,
    names,
    st.sampled_from(["lead!", "leave!", "register!"]),
    st.sampled_from([UNKNOWN, *vectors_of(
        "CLIENT_QUOTA_RECORD", "USER_SCRAM_CREDENTIAL_RECORD", "ACCESS_CONTROL_ENTRY_RECORD",
        "REMOVE_ACCESS_CONTROL_ENTRY_RECORD", "REMOVE_USER_SCRAM_CREDENTIAL_RECORD", "CONFIG_RECORD",
        "REGISTER_CONTROLLER_RECORD",
    )]),
)  # fmt: skip


def take_step(image: RecordImage, changes: Changes, step: TopicImage | str | bytes) -> None:
    if isinstance(step, bytes):
        apply_record(image, unframe(step))
    elif isinstance(step, TopicImage):
        applied(image, changes.put_topic(step))
    elif step == "lead!":
        applied(image, changes.lead())
    elif step == "leave!":
        applied(image, changes.leave(7))
    elif step == "register!":
        registration = BrokerRegistration({"PLAINTEXT": ("localhost", 9092)}, "rack")
        applied(image, changes.register(registration, 7, bytes(16), [DIRECTORY]))
    elif (topic := image.find_topic(step)) is not None:
        applied(image, [(topics.RemoveTopicRecord(topic_id=topic.topic_id), 0)])


@given(taken=st.lists(steps, max_size=12))
def test_a_snapshot_brings_back_the_image(taken: list[TopicImage | str | bytes]) -> None:
    image, changes = new_image()
    for step in taken:
        take_step(image, changes, step)
        assert image.topic_ids == {topic.name: topic_id for topic_id, topic in image.topics.items()}
    with tempfile.TemporaryDirectory() as folder:
        assert through_a_snapshot(image, Path(folder, "snapshot")) == image


@given(record=records, changed=records)
def test_put_topic_updates_the_metadata_image_to_the_topic_record(
    record: TopicImage, changed: TopicImage
) -> None:
    image, changes = new_image()
    for each in (record, changed):
        applied(image, changes.put_topic(each))
    topic = image.find_topic(changed.name)
    assert topic is not None
    assert topic.topic_id == changed.topic_id.bytes
    assert image.configs.get((settings.TOPIC_RESOURCE, changed.name), {}) == changed.config
    count = len(changed.partitions)
    assert list(topic.partitions)[:count] == list(range(count))
    for wanted, partition in zip(changed.partitions, topic.partitions.values(), strict=False):
        assert partition.leader_epoch >= wanted.leader_epoch
    assert list(changes.put_topic(changed)) == []


def test_image_records_keep_every_record_of_kafka_through_a_snapshot(tmp_path: Path) -> None:
    kafkas = [vector.value for vector in read_vectors() if "REMOVE" not in vector.name]
    topic = topics.TopicRecord(name="t2", topic_id=bytes.fromhex("e33ffbf7257d48288b839922e101d777"))
    image = image_of(
        [frame(topic), *sorted(kafkas, key=lambda value: value[1] not in (0, 2)), UNKNOWN, UNKNOWN]
    )
    again = through_a_snapshot(image, tmp_path / "snapshot")
    assert again == image
    assert list(again.kept.values()).count(UNKNOWN) == 2
    assert len(list(again.kept.values())) == 2
    assert [entry.principal for entry in again.acls.values()] == ["User:bob"]
    assert again.quotas == {frozenset({("user", "bob")}): {"producer_byte_rate": 100000.0}}
    assert list(again.credentials) == [("bob", 1)]


@pytest.mark.parametrize(
    ("names", "left"),
    [
        (("ACCESS_CONTROL_ENTRY_RECORD",), 1),
        (("ACCESS_CONTROL_ENTRY_RECORD", "ACCESS_CONTROL_ENTRY_RECORD"), 1),
        (("ACCESS_CONTROL_ENTRY_RECORD", "REMOVE_ACCESS_CONTROL_ENTRY_RECORD"), 0),
    ],
)
def test_entries_of_access_control_replace_and_remove_each_other(names: tuple[str, ...], left: int) -> None:
    image = image_of(value for name in names for value in vectors_of(name))
    assert len(image.acls) == left


def test_a_quota_is_removed_by_its_entity_whatever_the_order() -> None:
    parts = [
        settings.PartOfEntity(entity_type=kind, entity_name=name)
        for kind, name in [("user", "u"), ("ip", None)]
    ]
    there = settings.ClientQuotaRecord(entity=parts, key="k", value=1.0, remove=False)
    gone = settings.ClientQuotaRecord(entity=parts[::-1], key="k", value=0.0, remove=True)
    assert image_of([frame(there)]).quotas == {frozenset({("user", "u"), ("ip", None)}): {"k": 1.0}}
    assert image_of([frame(there), frame(gone)]).quotas == {}


def test_a_credential_of_the_metadata_image_is_removed() -> None:
    there, gone = vectors_of("USER_SCRAM_CREDENTIAL_RECORD", "REMOVE_USER_SCRAM_CREDENTIAL_RECORD")
    assert len(image_of([there]).credentials) == 1
    assert image_of([there, gone]).credentials == {}


def test_lead_and_leave_change_epochs_and_isr_of_the_metadata_image_as_in_kafka() -> None:
    image, changes = new_image()
    applied(image, changes.put_topic(topic_image("t", UUID(int=9), 1)))
    (partition,) = image.topics[UUID(int=9).bytes].partitions.values()
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (NODE, 0, 0)
    applied(image, changes.leave(3))
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (-1, 1, 1)
    assert (partition.isr, partition.eligible_leader_replicas, partition.last_known_elr) == (
        [],
        [NODE],
        [NODE],
    )
    applied(image, changes.lead())
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (NODE, 2, 2)
    assert (partition.isr, partition.eligible_leader_replicas, partition.last_known_elr) == ([NODE], [], [])


def test_leave_keeps_the_isr_in_a_metadata_image_without_eligible_leader_replicas() -> None:
    image = RecordImage(features={"metadata.version": 21})
    changes = Changes(image, NODE, directory_of)
    applied(image, changes.put_topic(topic_image("t", UUID(int=9), 1)))
    applied(image, changes.leave(3))
    (partition,) = image.topics[UUID(int=9).bytes].partitions.values()
    assert (partition.leader, partition.isr) == (-1, [NODE])


def test_remove_topic_record_removes_the_topic_config_from_the_metadata_image() -> None:
    image, changes = new_image()
    applied(image, changes.put_topic(topic_image("t", UUID(int=9), 1, {"retention.ms": "1"})))
    applied(image, [(topics.RemoveTopicRecord(topic_id=UUID(int=9).bytes), 0)])
    assert (image.topics, image.topic_ids, image.configs) == ({}, {}, {})
    assert image.removed_topics == {UUID(int=9).bytes: "t"}


def test_metadata_image_follows_broker_registration_changes() -> None:
    image, changes = new_image()
    registration = BrokerRegistration({"PLAINTEXT": ("localhost", 9092)}, None)
    applied(image, changes.register(registration, 12, bytes(16), [DIRECTORY]))
    broker = image.brokers[NODE]
    assert (broker.fenced, broker.in_controlled_shutdown, broker.broker_epoch) == (False, False, 12)
    applied(image, changes.leave(12))
    assert (broker.fenced, broker.in_controlled_shutdown) == (True, True)
    apply_message(image, cluster.UnfenceBrokerRecord(id=NODE, epoch=12))
    assert not image.brokers[NODE].fenced
    apply_message(image, cluster.UnregisterBrokerRecord(broker_id=NODE, broker_epoch=12))
    assert image.brokers == {}


@pytest.mark.parametrize(
    "message",
    [
        topics.RemoveTopicRecord(topic_id=bytes(16)),
        topics.PartitionRecord(topic_id=bytes(16), replicas=[1], isr=[1]),
        topics.PartitionChangeRecord(topic_id=bytes(16)),
        cluster.BrokerRegistrationChangeRecord(broker_id=5, broker_epoch=1),
        cluster.FenceBrokerRecord(id=5, epoch=1),
    ],
)
def test_apply_message_refuses_topics_and_brokers_unknown_to_the_metadata_image(message: object) -> None:
    with pytest.raises(UnreadableMetadataRecord, match="unknown"):
        apply_message(RecordImage(), message)


def test_put_topic_records_who_leads_and_who_is_in_sync() -> None:
    image, changes = new_image()
    topic = topic_image("t", UUID(int=9), 2)
    applied(image, changes.put_topic(topic))
    led = PartitionImage(3, 5, (NODE,), (5,))
    first, second = image.topics[UUID(int=9).bytes].partitions.values()
    applied(image, changes.put_topic(attrs.evolve(topic, partitions=(led, PartitionImage(0, NODE, (NODE,))))))
    first = image.topics[UUID(int=9).bytes].partitions[0]
    assert (first.leader, first.leader_epoch, first.isr, first.partition_epoch) == (5, 3, [5], 1)
    assert (second.leader, second.leader_epoch, second.isr) == (NODE, 0, [NODE])
    of_sync = attrs.evolve(topic, partitions=(led._replace(isr=(5, NODE)), topic.partitions[1]))
    applied(image, changes.put_topic(of_sync))
    assert (first.leader, first.leader_epoch, first.isr) == (5, 3, [5, NODE])
    assert [*changes.put_topic(of_sync)] == []


def test_delivery_has_no_other_broker_alive_than_the_one_that_leads_the_log() -> None:
    image = RecordImage()
    for node_id in (NODE, NODE + 1):
        image.brokers[node_id] = cluster.RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=bytes(16),
            broker_epoch=1,
            end_points=[],
            features=[],
            rack=None,
            fenced=False,
        )
    delivered = ImageDelivery(image, NODE, lambda topic_id: False).image("cluster", ())
    assert {node_id: broker.fenced for node_id, broker in delivered.brokers.items()} == {
        NODE: False,
        NODE + 1: True,
    }

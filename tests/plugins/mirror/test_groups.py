"""Offsets of groups are translated and committed at the target, and a group that has moved is left alone."""

from __future__ import annotations

import uuid

from tests.plugins.mirror.clusters import (
    SETTINGS,
    copied,
    matching,
    produce,
    settings,
    some_records,
)
from tidelog.client import Consumer
from tidelog.plugins.client import BlockingClient, GroupOffset, NewTopic, TopicPartition, or_raise
from tidelog.plugins.client.operations.records import delete_records
from tidelog.plugins.mirror.settings import MirrorSettings, Renaming


class Synced:
    """A topic with thirty records in batches of ten, its copy, and a group."""

    def __init__(self, clusters: tuple[str, str]) -> None:
        self.source, self.target = clusters
        self.name = f"t{uuid.uuid4().hex}"
        self.group = f"g{self.name}"
        self.place = TopicPartition(self.name, 0)
        self.copy = TopicPartition(f"us.{self.name}", 0)
        with BlockingClient(self.source, settings=SETTINGS) as client:
            or_raise(client.create_topics([NewTopic(self.name, 1)]))
            for number in range(3):
                produce(client, self.name, some_records(*(f"{number}{each}" for each in range(10))))
                copied(self.mirror, self.target)

    @property
    def mirror(self) -> MirrorSettings:
        return settings(
            self.name, self.source, self.name, renaming=Renaming("us."), groups=matching(self.group)
        )

    def commit(self, offset: int, metadata: str = "") -> None:
        with BlockingClient(self.source, settings=SETTINGS) as client:
            or_raise(client.commit_offsets(self.group, {self.place: GroupOffset(offset, metadata)}))
        copied(self.mirror, self.target)

    def commit_at_target(self, offset: int) -> None:
        with BlockingClient(self.target, settings=SETTINGS) as client:
            or_raise(client.commit_offsets(self.group, {self.copy: GroupOffset(offset)}))

    @property
    def at_target(self) -> GroupOffset:
        with BlockingClient(self.target, settings=SETTINGS) as client:
            return client.committed_offsets(self.group, [self.copy])[self.copy]


def test_an_offset_is_translated_and_marked(clusters: tuple[str, str]) -> None:
    synced = Synced(clusters)
    synced.commit(15)
    # Ten records, a marker, five records.
    assert synced.at_target == GroupOffset(16, f"tidelog-mirror {synced.name} 15")


def test_an_offset_follows_forward_and_backward(clusters: tuple[str, str]) -> None:
    synced = Synced(clusters)
    for offset, expected in ((15, 16), (29, 31), (3, 3), (30, 32)):
        synced.commit(offset)
        assert synced.at_target.offset == expected


def test_what_the_group_has_committed_at_the_target_stays(clusters: tuple[str, str]) -> None:
    synced = Synced(clusters)
    synced.commit(15)
    for own in (20, 5):
        synced.commit_at_target(own)
        synced.commit(25)
        assert synced.at_target == GroupOffset(own)


def test_a_group_with_members_at_the_target_is_not_changed(clusters: tuple[str, str]) -> None:
    synced = Synced(clusters)
    synced.commit(10)
    before = synced.at_target
    with Consumer(synced.target, group_id=synced.group) as consumer:
        consumer.subscribe([synced.copy.topic])
        while not consumer.assignment():
            consumer.poll(0.01)
        synced.commit(20)
        assert synced.at_target == before


def test_an_offset_that_a_mirror_has_committed_at_the_source_is_not_followed(
    clusters: tuple[str, str],
) -> None:
    synced = Synced(clusters)
    synced.commit(15, "tidelog-mirror other 4")
    assert synced.at_target.offset == -1


def test_offsets_are_translated_without_the_records_of_the_source(clusters: tuple[str, str]) -> None:
    synced = Synced(clusters)
    with BlockingClient(synced.source, settings=SETTINGS) as client:
        or_raise(client.run(delete_records, {synced.place: 30}))
    synced.commit(12)
    assert synced.at_target.offset == 13

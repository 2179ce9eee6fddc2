"""Topics of the source, their partitions and configuration are followed, and what cannot be is reported."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest

from tests.plugins.mirror.clusters import (
    SETTINGS,
    content,
    copied,
    produce,
    settings,
    some_records,
    without_offsets,
)
from tidelog.plugins.client import BlockingClient, ConfigChange, NewTopic, or_raise
from tidelog.plugins.client.producer.hashing import murmur2
from tidelog.plugins.mirror.errors import MirrorRefused
from tidelog.plugins.mirror.settings import Renaming


def new_name() -> str:
    return f"t{uuid.uuid4().hex}"


def create(client: BlockingClient, name: str, partitions: int = 1, **config: str) -> None:
    values = {key.replace("_", "."): value for key, value in config.items()}
    or_raise(client.create_topics([NewTopic(name, partitions, config=values)]))


def own_config(bootstrap: str, topic: str) -> dict[str, str | None]:
    with BlockingClient(bootstrap, settings=SETTINGS) as client:
        found = or_raise(client.describe_configs([topic]))[topic]
    return {each.name: each.value for each in found if each.is_own}


def partitions(bootstrap: str, topic: str) -> int:
    with BlockingClient(bootstrap, settings=SETTINGS) as client:
        return len(client.metadata([topic]).topics[topic].partitions)


def test_topics_are_created_as_they_are_but_for_what_belongs_to_a_cluster(
    clusters: tuple[str, str],
) -> None:
    source, target = clusters
    name = new_name()
    with BlockingClient(source, settings=SETTINGS) as client:
        create(client, name, 4, retention_ms="123456", message_timestamp_type="LogAppendTime")
    copied(settings(name, source, name), target)
    assert partitions(target, name) == 4
    assert own_config(target, name) == {"retention.ms": "123456"}


def test_added_partitions_and_changed_configuration_follow(clusters: tuple[str, str]) -> None:
    source, target = clusters
    name = new_name()
    mirror = settings(name, source, name)
    with BlockingClient(source, settings=SETTINGS) as client:
        create(client, name, 1, retention_ms="1000000", cleanup_policy="compact")
        copied(mirror, target)
        or_raise(client.create_partitions({name: 3}))
        changes = [
            ConfigChange("retention.ms", "2000000"),
            ConfigChange("cleanup.policy", operation="delete"),
        ]
        or_raise(client.alter_configs({name: changes}))
        produce(client, name, some_records("a"), partition=2)
    copied(mirror, target)
    assert partitions(target, name) == 3
    assert own_config(target, name) == {"retention.ms": "2000000"}
    assert without_offsets(content(target, name, 2)) == without_offsets(content(source, name, 2))


def test_what_was_configured_at_the_target_stays(clusters: tuple[str, str]) -> None:
    source, target = clusters
    name = new_name()
    mirror = settings(name, source, name)
    with BlockingClient(source, settings=SETTINGS) as client:
        create(client, name)
    copied(mirror, target)
    with BlockingClient(target, settings=SETTINGS) as client:
        or_raise(client.alter_configs({name: [ConfigChange("retention.ms", "5000000")]}))
    copied(mirror, target)
    assert own_config(target, name) == {"retention.ms": "5000000"}


def test_topics_are_chosen_and_renamed(clusters: tuple[str, str]) -> None:
    source, target = clusters
    name = new_name()
    renaming = Renaming("us.", re.compile(r"(.*)_v1"), r"\1")
    with BlockingClient(source, settings=SETTINGS) as client:
        for each in (f"{name}_v1", f"{name}_b", f"x{name}"):
            create(client, each)
    statistics = copied(settings(name, source, f"{name}.*", renaming=renaming), target)
    with BlockingClient(target, settings=SETTINGS) as client:
        found = [each for each in client.metadata().topics if name in each and "internal" not in each]
    assert sorted(found) == [f"us.{name}", f"us.{name}_b"]
    assert statistics.topics == 2


def test_two_topics_with_one_copy_are_refused(clusters: tuple[str, str]) -> None:
    source, target = clusters
    name = new_name()
    with BlockingClient(source, settings=SETTINGS) as client:
        create(client, f"{name}a")
        create(client, f"{name}b")
    renaming = Renaming("", re.compile(".*"), "one")
    with pytest.raises(MirrorRefused, match="would both be copied to one"):
        copied(settings(name, source, f"{name}.*", renaming=renaming), target)


def test_a_copy_with_fewer_partitions_gets_more(clusters: tuple[str, str]) -> None:
    source, target = clusters
    name = new_name()
    with BlockingClient(source, settings=SETTINGS) as client:
        create(client, name, 3)
        produce(client, name, some_records("a"), partition=2)
    with BlockingClient(target, settings=SETTINGS) as client:
        create(client, name, 1)
    copied(settings(name, source, name), target)
    assert without_offsets(content(target, name, 2)) == without_offsets(content(source, name, 2))


def test_records_are_assigned_to_another_number_of_partitions_by_their_keys(
    clusters: tuple[str, str],
) -> None:
    source, target = clusters
    name = new_name()
    with BlockingClient(source, settings=SETTINGS) as client:
        create(client, name, 4)
        for number in range(40):
            produce(client, name, some_records(str(number), key=b"%d" % number), partition=number % 4)
    with BlockingClient(target, settings=SETTINGS) as client:
        create(client, name, 2)
    copied(settings(name, source, name, keeps_partitions=False), target)
    places = {key: number for number in range(2) for _, key, *_ in content(target, name, number)}
    assert places == {b"%d" % each: (murmur2(b"%d" % each) & 0x7FFFFFFF) % 2 for each in range(40)}


def test_a_topic_that_was_created_again_is_copied_from_its_beginning(clusters: tuple[str, str]) -> None:
    source, target = clusters
    name = new_name()
    mirror = settings(name, source, name)
    with BlockingClient(source, settings=SETTINGS) as client:
        for value in ("a", "b"):
            create(client, name)
            produce(client, name, some_records(value))
            copied(mirror, target)
            or_raise(client.delete_topics([name]))
        copied(mirror, target)
    assert [each[2] for each in content(target, name)] == [b"a", b"b"]


def test_a_copy_that_was_deleted_is_made_again(clusters: tuple[str, str]) -> None:
    source, target = clusters
    name = new_name()
    mirror = settings(name, source, name)
    with BlockingClient(source, settings=SETTINGS) as client:
        create(client, name)
        produce(client, name, some_records("a"))
        copied(mirror, target)
        with BlockingClient(target, settings=SETTINGS) as other:
            or_raise(other.delete_topics([name]))
        produce(client, name, some_records("b"))
        copied(mirror, target)
    assert [each[2] for each in content(target, name)] == [b"a", b"b"]


def test_a_copy_may_begin_at_the_end(clusters: tuple[str, str]) -> None:
    source, target = clusters
    name = new_name()
    mirror: Any = settings(name, source, name, starts_at_end=True)
    with BlockingClient(source, settings=SETTINGS) as client:
        create(client, name)
        produce(client, name, some_records("a"))
        copied(mirror, target)
        produce(client, name, some_records("b"))
        or_raise(client.create_partitions({name: 2}))
        produce(client, name, some_records("c"), partition=1)
        copied(mirror, target)
    assert [each[2] for each in content(target, name)] == [b"b"]
    assert [each[2] for each in content(target, name, 1)] == [b"c"]

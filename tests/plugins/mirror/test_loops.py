"""Clusters that mirror each other: nothing comes back, under the same names or under names of their own."""

from __future__ import annotations

import uuid

import pytest
import trio

from tests.deadlines import until
from tests.plugins.mirror.clusters import (
    SETTINGS,
    content,
    copied,
    matching,
    mirror_of,
    produce,
    settings,
    some_records,
)
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client import BlockingClient, GroupOffset, NewTopic, TopicPartition, or_raise
from tidelog.plugins.mirror.errors import MirrorRefused
from tidelog.plugins.mirror.settings import MirrorSettings, NameFilter, Renaming


def topic_in(*clusters: str) -> str:
    name = f"t{uuid.uuid4().hex}"
    for each in clusters:
        with BlockingClient(each, settings=SETTINGS) as client:
            or_raise(client.create_topics([NewTopic(name, 1)]))
    return name


def write(cluster: str, name: str, *values: str) -> None:
    with BlockingClient(cluster, settings=SETTINGS) as client:
        produce(client, name, some_records(*values))


def values(cluster: str, name: str) -> list[bytes]:
    return sorted(each[2] or b"" for each in content(cluster, name))


def test_two_clusters_with_the_same_names_have_each_record_once(clusters: tuple[str, str]) -> None:
    one, other = clusters
    name = topic_in(one, other)
    there, back = settings(f"{name}a", one, name), settings(f"{name}b", other, name)
    for round_number in range(3):
        write(one, name, f"one {round_number}")
        write(other, name, f"other {round_number}")
        copied(there, other)
        copied(back, one)
    copied(there, other)
    expected = sorted(b"%s %d" % (where, number) for where in (b"one", b"other") for number in range(3))
    assert values(one, name) == values(other, name) == expected


def test_a_group_of_a_topic_that_is_mirrored_both_ways_is_not_synchronized(
    clusters: tuple[str, str],
) -> None:
    one, other = clusters
    name = topic_in(one, other)
    write(one, name, "one")
    copied(settings(f"{name}b", other, name), one)
    there = settings(f"{name}a", one, name, groups=matching(name))
    with BlockingClient(one, settings=SETTINGS) as client:
        or_raise(client.commit_offsets(name, {TopicPartition(name, 0): GroupOffset(1)}))
    assert copied(there, other).groups == 0


def test_copies_with_prefixes_are_not_copied_back(clusters: tuple[str, str]) -> None:
    one, other = clusters
    name = topic_in(one)
    write(one, name, "a")
    chosen = matching(f".*{name}")

    def named(mirror: str, source: str, prefix: str) -> MirrorSettings:
        return MirrorSettings(mirror + name, source, chosen, Renaming(prefix))

    for _ in range(3):
        copied(named("there", one, "one."), other)
        copied(named("back", other, "other."), one)
    for cluster, expected in ((one, {name}), (other, {f"one.{name}"})):
        with BlockingClient(cluster, settings=SETTINGS) as client:
            found = {each for each in client.metadata().topics if name in each and "internal" not in each}
        assert found == expected


def test_a_chain_copies_on_and_a_ring_does_not_with_include_mirrored_false(
    clusters: tuple[str, str],
) -> None:
    one, two = clusters
    with broker_in_thread() as broker:
        three = broker.bootstrap
        name = topic_in(one, two, three)
        for where, cluster in (("one", one), ("two", two), ("three", three)):
            write(cluster, name, where)
        ring = [
            settings(f"{name}{number}", source, name, include_mirrored=False)
            for number, source in enumerate((one, two, three))
        ]
        for _ in range(3):
            for mirror, target in zip(ring, (two, three, one), strict=True):
                copied(mirror, target)
        assert values(two, name) == [b"one", b"two"]
        copied(settings(f"{name}chain", two, name), three)
        assert values(three, name) == [b"one", b"three", b"two", b"two"]


def test_a_cluster_is_not_copied_into_itself_under_the_same_names(clusters: tuple[str, str]) -> None:
    one, _ = clusters
    name = topic_in(one)
    with pytest.raises(MirrorRefused, match="the same cluster"):
        copied(settings(name, one, name), one)
    write(one, name, "a")
    mirror = MirrorSettings(name, one, NameFilter(matching(f".*{name}").include), Renaming("copy."))
    for _ in range(3):
        copied(mirror, one)
    with BlockingClient(one, settings=SETTINGS) as client:
        found = {each for each in client.metadata().topics if name in each and "internal" not in each}
    assert found == {name, f"copy.{name}"}


async def test_records_of_a_mirror_that_began_later_do_not_come_back(clusters: tuple[str, str]) -> None:
    one, other = clusters
    name = await trio.to_thread.run_sync(topic_in, one, other)
    await trio.to_thread.run_sync(write, one, name, "one")
    # It looks at the topics again only after all of this.
    back = settings(f"{name}b", other, name, commit_interval_s=0.01, refresh_interval_s=1000.0)
    async with mirror_of(back, one) as running, trio.open_nursery() as nursery:
        nursery.start_soon(running.run)
        await until(lambda: running.statistics.state == "copying", "it copies")
        there = settings(f"{name}a", one, name)
        async with mirror_of(there, other) as first:
            await first.run_until_end()
        await trio.to_thread.run_sync(write, other, name, "other")
        await until(lambda: running.statistics.records, "what was written later is copied")
        nursery.cancel_scope.cancel()
    assert await trio.to_thread.run_sync(values, one, name) == [b"one", b"other"]

"""What goes wrong at source or target while a mirror runs: it continues, and says what is wrong."""

from __future__ import annotations

import socket
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from tests.deadlines import until
from tests.peers import free_port
from tests.plugins.mirror.clusters import (
    SETTINGS,
    content,
    copied,
    mirror_of,
    produce,
    settings,
    some_records,
)
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client import (
    BlockingClient,
    ClientSettings,
    ConfigChange,
    NewRecord,
    NewTopic,
    TopicPartition,
    or_raise,
)
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.operations.records import delete_records
from tidelog.plugins.mirror.cluster_client import EngineClient
from tidelog.plugins.mirror.connected import connected
from tidelog.plugins.mirror.errors import MirrorRefused
from tidelog.plugins.mirror.mirror import Mirror
from tidelog.plugins.mirror.settings import MirrorSettings
from tidelog.plugins.mirror.statistics import MirrorStatistics

QUICK = {
    "commit_interval_s": 0.01,
    "refresh_interval_s": 0.2,
    "retry_backoff_s": 0.01,
    "retry_backoff_max_s": 0.1,
}


def new_topic(cluster: str, **config: str) -> str:
    name = f"t{uuid.uuid4().hex}"
    create(cluster, name, **config)
    return name


def create(cluster: str, name: str, **config: str) -> None:
    values = {key.replace("_", "."): value for key, value in config.items()}
    with BlockingClient(cluster, settings=SETTINGS) as client:
        or_raise(client.create_topics([NewTopic(name, 1, config=values)]))


def delete(cluster: str, name: str) -> None:
    with BlockingClient(cluster, settings=SETTINGS) as client:
        or_raise(client.delete_topics([name]))


def write(cluster: str, name: str, *values: str) -> None:
    with BlockingClient(cluster, settings=SETTINGS) as client:
        produce(client, name, some_records(*values))


def values(cluster: str, name: str) -> list[bytes | None]:
    try:
        return [each[2] for each in content(cluster, name)]
    except ClientError:
        return []


async def in_thread(call: Callable[..., Any], *args: Any) -> Any:
    return await trio.to_thread.run_sync(partial(call, *args))


async def until_copied(cluster: str, name: str, *expected: str) -> None:
    found: list[list[bytes | None]] = [[]]

    async def look() -> None:
        while found[0] != [each.encode() for each in expected]:
            found[0] = await in_thread(values, cluster, name)

    with trio.move_on_after(60):
        await look()
    assert found[0] == [each.encode() for each in expected]


@asynccontextmanager
async def running(mirror: MirrorSettings, target: str) -> AsyncGenerator[Mirror]:
    async with mirror_of(mirror, target) as found, trio.open_nursery() as nursery:
        nursery.start_soon(found.run)
        yield found
        nursery.cancel_scope.cancel()


def two_topics(source: str, **others: Any) -> tuple[MirrorSettings, str, str]:
    one, other = new_topic(source), new_topic(source)
    return settings(f"m{one}", source, f"{one}|{other}", **QUICK, **others), one, other


async def test_a_mirror_copies_what_is_written_and_new_topics_while_it_runs(
    clusters: tuple[str, str],
) -> None:
    source, target = clusters
    one = new_topic(source)
    async with running(settings(f"m{one}", source, f"{one}.*", **QUICK), target) as mirror:
        for index in range(3):
            await in_thread(write, source, one, str(index))
            await until_copied(target, one, *map(str, range(index + 1)))
        await in_thread(create, source, f"{one}x")
        await in_thread(write, source, f"{one}x", "x")
        await until_copied(target, f"{one}x", "x")
        await until(lambda: mirror.statistics.lag == 0, "the lag is 0")
        figures = mirror.statistics.as_json(trio.current_time())
        assert (figures["state"], figures["records"], figures["topics"]) == ("copying", 4, 2)
        assert figures["records_per_s"] > 0
    assert mirror.statistics.state == "stopped"


async def test_a_topic_that_is_deleted_at_the_source_stops_no_other(clusters: tuple[str, str]) -> None:
    source, target = clusters
    mirror, one, other = two_topics(source)
    await in_thread(write, source, one, "a")
    async with running(mirror, target):
        await until_copied(target, one, "a")
        await in_thread(delete, source, one)
        await in_thread(write, source, other, "b")
        await until_copied(target, other, "b")
        await until_copied(target, one, "a")


async def test_a_topic_that_is_made_again_at_the_source_is_noticed_at_the_next_fetch(
    clusters: tuple[str, str],
) -> None:
    source, target = clusters
    one = new_topic(source)
    await in_thread(write, source, one, "a", "b")
    long = {**QUICK, "refresh_interval_s": 3600.0}
    async with running(settings(f"m{one}", source, one, **long), target):
        await until_copied(target, one, "a", "b")
        await in_thread(delete, source, one)
        await in_thread(create, source, one)
        await in_thread(write, source, one, "c", "d", "e")
        await until_copied(target, one, "a", "b", "c", "d", "e")


async def test_a_topic_that_is_deleted_at_the_target_is_copied_again(clusters: tuple[str, str]) -> None:
    source, target = clusters
    mirror, one, other = two_topics(source)
    await in_thread(write, source, one, "a")
    async with running(mirror, target):
        await until_copied(target, one, "a")
        await in_thread(delete, target, one)
        await in_thread(write, source, one, "b")
        await in_thread(write, source, other, "c")
        await until_copied(target, one, "a", "b")
        await until_copied(target, other, "c")


async def test_a_record_that_is_too_large_stops_its_partition_alone(clusters: tuple[str, str]) -> None:
    source, target = clusters
    mirror, one, other = two_topics(source)
    await in_thread(partial(create, target, one, max_message_bytes="3000"))
    async with running(mirror, target) as found:
        # Together they are too large, and each is small enough.
        await in_thread(write, source, one, *("x" * 500 for _ in range(10)))
        await until_copied(target, one, *("x" * 500 for _ in range(10)))
        assert not found.statistics.problems
        await in_thread(write, source, one, "y" * 4000)
        await until(lambda: found.statistics.problems, "a problem")
        (problem,) = found.statistics.problems.values()
        assert "the record at offset 10 of the source takes 4" in problem
        assert f"more than max.message.bytes of {one}-0 at the target" in problem
        await in_thread(write, source, other, "b")
        await until_copied(target, other, "b")

        def raise_limit() -> None:
            with BlockingClient(target, settings=SETTINGS) as client:
                or_raise(client.alter_configs({one: [ConfigChange("max.message.bytes", "9000")]}))

        await in_thread(raise_limit)
        await until_copied(target, one, *("x" * 500 for _ in range(10)), "y" * 4000)
        await until(lambda: not found.statistics.problems, "no problem")


def test_a_copy_to_the_end_fails_where_a_record_is_too_large(clusters: tuple[str, str]) -> None:
    source, target = clusters
    mirror, one, other = two_topics(source)
    create(target, one, max_message_bytes="3000")
    write(source, one, "y" * 4000)
    write(source, other, "b")
    with pytest.raises(MirrorRefused, match="the record at offset 0 of the source takes"):
        copied(mirror, target)
    assert values(target, other) == [b"b"]


async def test_a_second_process_takes_over_and_the_first_one_stops(clusters: tuple[str, str]) -> None:
    source, target = clusters
    mirror, one, _ = two_topics(source)
    async with mirror_of(mirror, target) as first:
        failures: list[MirrorRefused] = []

        async def run_first() -> None:
            try:
                await first.run()
            except MirrorRefused as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_first)
            await in_thread(write, source, one, "a")
            await until_copied(target, one, "a")
            async with running(mirror, target):
                await in_thread(write, source, one, "b")
                await until_copied(target, one, "a", "b")
                await in_thread(write, source, one, "c")
                await until(lambda: failures, "the first one stops")
                assert "another process runs the mirror" in str(failures[0])
                await until_copied(target, one, "a", "b", "c")


def test_records_that_the_source_has_deleted_are_counted(clusters: tuple[str, str]) -> None:
    source, target = clusters
    mirror, one, _ = two_topics(source)
    write(source, one, "a")
    copied(mirror, target)
    write(source, one, "b", "c", "d")
    with BlockingClient(source, settings=SETTINGS) as client:
        or_raise(client.run(delete_records, {TopicPartition(one, 0): 3}))
    assert copied(mirror, target).lost == 2
    assert values(target, one) == [b"a", b"d"]


async def test_a_source_that_vanishes_is_waited_for(tmp_path: Path, clusters: tuple[str, str]) -> None:
    _, target = clusters
    port = free_port()
    bootstrap = f"127.0.0.1:{port}"
    broker = {"storage": "file", "log.dirs": str(tmp_path), "listeners": f"PLAINTEXT://{bootstrap}"}
    name = f"t{uuid.uuid4().hex}"
    mirror = settings(name, bootstrap, name, **QUICK)
    figures = MirrorStatistics(name, bootstrap)

    def write_all(*found: str) -> None:
        with BlockingClient(bootstrap, settings=SETTINGS) as client:
            for each in found:
                client.produce(TopicPartition(name, 0), [NewRecord(each.encode())])

    async with connected(mirror, target, figures) as running_mirror, trio.open_nursery() as nursery:
        nursery.start_soon(running_mirror.run)
        await until(lambda: figures.state == "failed", "the source is missed")
        assert bootstrap in figures.last_error
        assert "refused" in figures.last_error
        for values_so_far in (("a",), ("a", "b")):
            with broker_in_thread(broker):
                await in_thread(write_all, values_so_far[-1])
                await until_copied(target, name, *values_so_far)
            await until(lambda: figures.state == "failed", "the source is missed")
        nursery.cancel_scope.cancel()


def test_a_source_that_does_not_answer_is_an_error_that_names_it(clusters: tuple[str, str]) -> None:
    _, target = clusters
    impatient = ClientSettings(request_timeout_s=0.1, operation_timeout_s=0.3, connect_timeout_s=0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"

        async def main() -> None:
            with EngineClient(address, impatient) as source, EngineClient(target, SETTINGS) as other:
                await Mirror(settings("silent", address, ".*"), source, source, other).run_until_end()

        with pytest.raises(ClientError, match=address):
            trio.run(main)


def test_a_source_of_another_cluster_is_refused(clusters: tuple[str, str]) -> None:
    source, target = clusters
    mirror, one, _ = two_topics(source)
    write(source, one, "a")
    copied(mirror, target)
    with broker_in_thread() as other, pytest.raises(MirrorRefused, match="give it another name"):
        copied(attrs.evolve(mirror, bootstrap=other.bootstrap), target)

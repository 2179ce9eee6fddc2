"""The real broker under what a system does to processes: signals, pauses, and limits that are reached."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from tests.bad_input.test_memory import resident_kb
from tests.crash.test_killed_broker import Writer, in_threads
from tests.deadlines import DEADLINE_S, wait_until
from tests.full_disk import FullDisk
from tests.peers import TidelogServer, free_port
from tidelog.plugins.client import (
    BlockingClient,
    ClientSettings,
    NewRecord,
    NewTopic,
    RetryPolicy,
    TopicPartition,
    or_raise,
)
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic

BROKER = (sys.executable, "-m", "tidelog.kernel")
PATIENT = ClientSettings(request_timeout_s=DEADLINE_S, operation_timeout_s=DEADLINE_S)
AT_ONCE = attrs.evolve(PATIENT, retry=RetryPolicy(retries=0))
MOST_GROWTH_KB = 16 * 1024
LARGEST_FILE_BYTES = 11_000_000


@contextmanager
def limited(place: Path, limit: str) -> Generator[TidelogServer]:
    """A running broker under an `ulimit`."""
    launcher = ("sh", "-c", f'ulimit {limit} && exec "$0" "$@"', *BROKER)
    server = TidelogServer(place, requested_port=free_port(), launcher=launcher)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def broker(tmp_path: Path) -> Generator[TidelogServer]:
    """A running broker that keeps its address."""
    server = TidelogServer(tmp_path, requested_port=free_port())
    server.start()
    yield server
    server.stop()


def make_topic(broker: TidelogServer, name: str, partitions: int = 1) -> None:
    """A topic that is there."""
    with BlockingClient(broker.bootstrap, settings=PATIENT) as client:
        or_raise(client.create_topics([NewTopic(name, partitions)]))


def test_a_stop_under_load_loses_nothing_that_was_acknowledged(broker: TidelogServer) -> None:
    make_topic(broker, "orders")
    writer = Writer(TopicPartition("orders", 0), "none", 3)
    with in_threads(lambda stop: writer.run(broker.bootstrap, stop)):
        for _ in range(3):
            time.sleep(0.2)
            assert broker.stop() == 0
            broker.start()
    assert writer.failure is None
    with BlockingClient(broker.bootstrap, settings=PATIENT) as client:
        writer.check(client)


def test_a_broker_that_was_paused_goes_on_where_it_was(broker: TidelogServer) -> None:
    make_topic(broker, "orders")
    writer = Writer(TopicPartition("orders", 0), "zstd", 3)
    with in_threads(lambda stop: writer.run(broker.bootstrap, stop)):
        for _ in range(3):
            time.sleep(0.1)
            os.kill(broker.pid, signal.SIGSTOP)
            before = writer.acknowledged
            time.sleep(0.4)
            assert writer.acknowledged <= before + writer.records
            os.kill(broker.pid, signal.SIGCONT)
    assert writer.failure is None
    with BlockingClient(broker.bootstrap, settings=PATIENT) as client:
        writer.check(client)


def test_with_few_descriptors_more_partitions_are_served_than_there_are_descriptors(tmp_path: Path) -> None:
    with (
        limited(tmp_path, "-n 96") as broker,
        BlockingClient(broker.bootstrap, settings=PATIENT) as client,
    ):
        or_raise(client.create_topics([NewTopic("many", 200)]))
        for _ in range(2):
            for index in range(200):
                client.produce(TopicPartition("many", index), [NewRecord(b"x")])
        found = or_raise(client.list_offsets([TopicPartition("many", index) for index in range(200)]))
        assert {offset.offset for offset in found.values()} == {2}


def test_with_few_descriptors_connections_leave_some_for_the_files_of_partitions(tmp_path: Path) -> None:
    with (
        limited(tmp_path, "-n 96") as broker,
        BlockingClient(broker.bootstrap, settings=AT_ONCE) as client,
        contextlib.ExitStack() as idle,
    ):
        or_raise(client.create_topics([NewTopic("many", 20)]))
        partitions = [TopicPartition("many", index) for index in range(20)]
        # Once connected to the leader, the client needs no further connection.
        or_raise(client.list_offsets(partitions))
        # As many as the broker takes, and not more than the backlog has room for.
        for _ in range(80):
            idle.enter_context(socket.create_connection(("127.0.0.1", broker.port), DEADLINE_S))
        for _ in range(5):
            # Meanwhile the broker accepts what it can.
            or_raise(client.list_offsets(partitions))
        for partition in partitions:
            client.produce(partition, [NewRecord(b"x")])
        assert {offset.offset for offset in or_raise(client.list_offsets(partitions)).values()} == {1}


def takes(client: BlockingClient, partition: TopicPartition, value: bytes) -> bool:
    """Append a record; return whether the broker's disk took it."""
    try:
        client.produce(partition, [NewRecord(value)])
    except ErrorResponse as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        return False
    return True


def appended_until_refused(client: BlockingClient, partition: TopicPartition, value: bytes) -> int:
    """How many records the broker took before it told that its disk refuses them."""
    for number in range(1000):
        if not takes(client, partition, value):
            return number
    raise AssertionError("the limit was not reached")


def test_a_disk_that_takes_no_more_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    # The limit on the size of a file is what a full disk can be had for without being root.
    partition, value = TopicPartition("orders", 0), bytes(500_000)
    with limited(tmp_path, f"-f {LARGEST_FILE_BYTES // 512}") as broker:
        make_topic(broker, "orders")
        with BlockingClient(broker.bootstrap, settings=AT_ONCE) as client:
            acknowledged = appended_until_refused(client, partition, value)
            assert len(list(client.read(partition, 0))) == acknowledged > 10
    with_room = TidelogServer(tmp_path, requested_port=free_port())
    with_room.start()
    try:
        with BlockingClient(with_room.bootstrap, settings=PATIENT) as client:
            assert client.produce(partition, [NewRecord(value)]).base_offset == acknowledged
            assert len(list(client.read(partition, 0))) == acknowledged + 1
    finally:
        with_room.stop()


@pytest.mark.parametrize("killed", [False, True])
def test_a_broker_whose_disk_is_full_stays_stops_and_starts(tmp_path: Path, killed: bool) -> None:
    disk = FullDisk(tmp_path / "disk")
    disk.mount()
    if not disk.is_mounted:
        pytest.skip("no file system can be mounted here")
    partition, value = TopicPartition("orders", 0), bytes(10_000)
    server = TidelogServer(tmp_path, requested_port=free_port(), data_dir=disk.folder / "data")
    try:
        server.start()
        make_topic(server, "orders")
        with BlockingClient(server.bootstrap, settings=AT_ONCE) as client:
            client.produce(partition, [NewRecord(value)])
            disk.fill()
            acknowledged = 1 + appended_until_refused(client, partition, value)
            assert len(list(client.read(partition, 0))) == acknowledged
        if killed:
            server.kill()
        else:
            assert server.stop() == 0
        # The stop has released some.
        disk.fill()
        server.start()
        with BlockingClient(server.bootstrap, settings=AT_ONCE) as client:
            assert len(list(client.read(partition, 0))) == acknowledged
            assert not appended_until_refused(client, partition, value)
        disk.free()
        with BlockingClient(server.bootstrap, settings=AT_ONCE) as client:
            # What waits for room is tried again after seconds, as clients do.
            wait_until(lambda: takes(client, partition, value), "the first append with room")
            assert len(list(client.read(partition, 0))) == acknowledged + 1
        with BlockingClient(server.bootstrap, settings=PATIENT) as client:
            or_raise(client.create_topics([NewTopic("later")]))
        assert server.stop() == 0
    finally:
        server.kill()
        disk.unmount()


def test_a_topic_that_is_deleted_under_its_readers_ends_their_reading(broker: TidelogServer) -> None:
    make_topic(broker, "orders")
    partition = TopicPartition("orders", 0)
    rounds: list[int] = []
    ended_by: list[ErrorCode] = []

    def read(stop: threading.Event) -> None:
        with BlockingClient(broker.bootstrap, settings=AT_ONCE) as client:
            while not stop.is_set():
                try:
                    found = [record.value for record in client.read(partition, 0)]
                except ErrorResponse as error:
                    ended_by.append(error.code)
                    return
                assert found == [bytes(100_000)] * 20
                rounds.append(threading.get_ident())

    with BlockingClient(broker.bootstrap, settings=PATIENT) as client:
        for _ in range(20):
            client.produce(partition, [NewRecord(bytes(100_000))])
        with in_threads(read, read, read):
            wait_until(lambda: len({*rounds}) == 3, "reading by each reader")
            or_raise(client.delete_topics(["orders"]))
            wait_until(lambda: len(ended_by) == 3, "the end of every reading")
        make_topic(broker, "orders")
        assert client.produce(partition, [NewRecord(b"anew")]).base_offset == 0
    assert len(ended_by) == 3
    assert set(ended_by) <= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


def test_a_fetch_of_a_thousand_partitions_takes_no_memory_for_what_it_sends(broker: TidelogServer) -> None:
    count, value = 1000, bytes(50_000)
    make_topic(broker, "wide", count)
    with BlockingClient(broker.bootstrap, settings=PATIENT) as client:
        for index in range(count):
            client.produce(TopicPartition("wide", index), [NewRecord(value)])
        topic_id = client.metadata(["wide"]).topics["wide"].topic_id
        wanted = [
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
            for index in range(count)
        ]
        topic = FetchTopic(topic="wide", topic_id=topic_id.bytes, partitions=wanted)
        before = resident_kb(broker.pid)
        answer = client.request(FetchRequest(max_wait_ms=100, min_bytes=1, topics=[topic]))
        grown = resident_kb(broker.pid) - before
    sizes = [len(part.records) for told in answer.responses for part in told.partitions]
    assert len(sizes) == count
    assert sum(sizes) > count * len(value)
    assert grown < MOST_GROWTH_KB

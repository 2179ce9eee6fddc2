"""The broker's life: opened from the inside out, stopped the same way back, nothing lost on either way."""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.conftest import only_cause
from tests.deadlines import DEADLINE_S, until
from tidelog.kernel.broker import Broker, _NoCoordinator, serve  # pyright: ignore[reportPrivateUsage]
from tidelog.kernel.config import Sources, settings_from_mapping
from tidelog.kernel.errors import ConfigError, CoordinatorNotAvailable, ThrottlingQuotaExceeded
from tidelog.kernel.log import Isolation
from tidelog.kernel.plugins import configure
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.quotas import ClientQuotaType
from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.seams.storage import PartitionSpec, PartitionStore
from tidelog.kernel.seams.tasks import PeriodicTask
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.testing.broker import broker_in_thread, new_broker, running_broker
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS, CREATE_TOPICS, FETCH, Api
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.plugins.protocol_kafka.messages.header import encode_request


def request(api: Api, version: int, message: object) -> bytes:
    """A request's frame."""
    return b"".join(cast("list[bytes]", encode_request(api.key, version, 1, "tests", message)))


HELLO = request(API_VERSIONS, 0, ApiVersionsRequest())


def long_poll() -> bytes:
    """A fetch that waits for a minute."""
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topic = FetchTopic(topic="flights", partitions=[part])
    return request(FETCH, 12, FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[topic]))


def creation(name: str) -> bytes:
    """A request to create a topic."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return request(CREATE_TOPICS, 4, CreateTopicsRequest(topics=[topic]))


async def connect(broker: Broker, listener: str = "PLAINTEXT") -> trio.SocketStream:
    """A client's connection."""
    host, _, port = broker.listeners[listener].rpartition(":")
    return await trio.open_tcp_stream(host, int(port))


async def answer(stream: trio.SocketStream) -> bytes | None:
    """The next answer without its size, None at the end of the connection."""
    size = await exactly(stream, 4)
    return await exactly(stream, int(struct.unpack(">i", size)[0])) if size else None


async def exactly(stream: trio.SocketStream, count: int) -> bytes:
    """So many bytes, or none at the end of the connection."""
    received = bytearray()
    while len(received) < count:
        chunk = await stream.receive_some(count - len(received))
        if not chunk:
            break
        received += chunk
    return bytes(received)


class Diary:
    """What happens to a broker's parts, in order."""

    def __init__(self, broker: Broker) -> None:
        self.events: list[str] = []
        storage, topics = broker.storage, broker.topics
        parts: tuple[tuple[str, object, tuple[str, ...]], ...] = (
            ("storage", storage, ("open", "load", "finish_writes", "close")),
            ("metadata", broker.metadata, ("activate", "close")),
            ("topics", topics, ("load", "close")),
        )
        for part, owner, names in parts:
            for name in names:
                setattr(owner, name, partial(self._noted, f"{part}.{name}", getattr(owner, name)))

    async def _noted(
        self, label: str, method: Callable[..., Awaitable[None]], *args: object, **named: object
    ) -> None:
        self.events.append(label)
        await method(*args, **named)


OPENED = ["storage.open", "storage.load", "metadata.activate", "topics.load"]
CLOSED = ["topics.close", "storage.finish_writes", "metadata.close", "storage.close"]


async def test_running_opens_the_storage_first_and_closes_it_last() -> None:
    broker = new_broker()
    diary = Diary(broker)
    async with broker.running():
        assert diary.events == OPENED
        assert set(broker.listeners) == {"PLAINTEXT"}
        async with await connect(broker) as client:
            await client.send_all(HELLO)
            assert await answer(client)
    assert diary.events == OPENED + CLOSED
    with pytest.raises(OSError, match=r"attempts|refused|connect"):
        await connect(broker)


async def test_running_closes_everything_after_an_error_inside() -> None:
    broker = new_broker()
    diary = Diary(broker)
    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="inside"), flatten_subgroups=True):
        async with broker.running():
            raise ValueError("inside")
    assert diary.events == OPENED + CLOSED


async def test_running_reports_a_port_in_use_and_closes_everything() -> None:
    async with running_broker() as first:
        second = new_broker({"listeners": f"PLAINTEXT://{first.listeners['PLAINTEXT']}"})
        diary = Diary(second)
        with pytest.raises(BaseExceptionGroup) as raised:
            async with second.running():
                pass
        cause = only_cause(raised.value)
        assert isinstance(cause, ConfigError)
        assert "another broker" in str(cause)
        assert diary.events == OPENED + CLOSED
        async with await connect(first) as client:
            await client.send_all(HELLO)
            assert await answer(client)


async def test_running_with_one_of_two_ports_in_use_frees_the_other() -> None:
    async with running_broker() as first:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            free = probe.getsockname()[1]
        listeners = f"FREE://127.0.0.1:{free},TAKEN://{first.listeners['PLAINTEXT']}"
        with pytest.raises(BaseExceptionGroup):
            async with running_broker({"listeners": listeners}):
                pass
        async with running_broker({"listeners": f"PLAINTEXT://127.0.0.1:{free}"}) as third:
            assert third.listeners["PLAINTEXT"].endswith(f":{free}")


async def test_two_listeners_are_served_alike() -> None:
    listeners = "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"
    async with running_broker({"listeners": listeners}) as broker:
        for name in ("INSIDE", "OUTSIDE"):
            async with await connect(broker, name) as client:
                await client.send_all(HELLO)
                assert await answer(client)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "127.0.0.1"),
        ({"listeners": "PLAINTEXT://localhost:0"}, "localhost"),
        ({"listeners": "PLAINTEXT://0.0.0.0:0"}, socket.gethostname()),
        ({"listeners": "PLAINTEXT://:0"}, socket.gethostname()),
        ({"advertised.listeners": "PLAINTEXT://broker.example:0"}, "broker.example"),
    ],
)
async def test_advertised_listeners_of_this_broker_have_a_client_host_and_the_bound_port(
    settings: dict[str, str], told: str
) -> None:
    async with running_broker(settings) as broker:
        endpoint = broker.cluster.this_broker("PLAINTEXT")
        bound = int(broker.listeners["PLAINTEXT"].rpartition(":")[2])
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (1, told, bound)


async def test_advertised_listeners_of_this_broker_keep_an_explicit_port() -> None:
    async with running_broker({"advertised.listeners": "PLAINTEXT://broker.example:1234"}) as broker:
        assert broker.cluster.this_broker("PLAINTEXT").port == 1234


# Stopping


async def test_running_at_the_stop_answers_long_polling_fetches_at_once() -> None:
    async with trio.open_nursery() as nursery:
        stop = trio.Event()
        clients: list[trio.SocketStream] = []

        async def run(task_status: trio.TaskStatus[Broker]) -> None:
            async with running_broker() as broker:
                await broker.topics.create(TopicSpec("flights"))
                task_status.started(broker)
                await stop.wait()

        broker = cast("Broker", await nursery.start(run))
        for _ in range(3):
            client = await connect(broker)
            await client.send_all(long_poll() + long_poll() + HELLO)
            clients.append(client)
        await wait_all_tasks_blocked()
        stop.set()
        with trio.fail_after(DEADLINE_S):
            for client in clients:
                assert [bool(await answer(client)) for _ in range(3)] == [True] * 3
                assert await answer(client) is None
                await client.aclose()


def slow_to_open(broker: Broker, gate: trio.Event) -> None:
    """Let the storage open partitions only when the gate does."""
    open_partitions = broker.storage.open_partitions

    async def wait(
        specs: Sequence[PartitionSpec], progress: Callable[[int], None] | None = None
    ) -> Sequence[PartitionStore]:
        await gate.wait()
        return await open_partitions(specs, progress)

    broker.storage.open_partitions = wait  # type: ignore[method-assign]


async def test_running_at_the_stop_waits_for_requests_in_progress(autojump_clock: MockClock) -> None:
    autojump_clock.autojump_threshold = 0.02
    broker, gate = new_broker(), trio.Event()
    async with broker.running():
        slow_to_open(broker, gate)
        client = await connect(broker)
        await client.send_all(creation("flights"))
        await wait_all_tasks_blocked()

        async def open_gate() -> None:
            await trio.sleep(5)
            gate.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_gate)
            await broker.server.finish()
        assert await answer(client)
        assert broker.topics.find("flights") is not None
        await client.aclose()


async def test_running_at_the_stop_waits_no_longer_than_shutdown_timeout_ms(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    autojump_clock.autojump_threshold = 0.02
    broker = new_broker({"shutdown.timeout.ms": 3000})
    async with broker.running():
        await broker.topics.create(TopicSpec("flights"))
        broker.topics.get("flights").partitions[0].log.append_nowait(make_batch([b"x" * 1_000_000]))
        stuck = await connect(broker)
        await stuck.send_all(long_poll() * 100)
        await wait_all_tasks_blocked()
        start = trio.current_time()
    assert 3 <= trio.current_time() - start < 4
    assert "1 connections were still busy" in caplog.text
    await stuck.aclose()


async def test_a_stop_at_once_waits_for_nobody(autojump_clock: MockClock) -> None:
    autojump_clock.autojump_threshold = 0.02
    broker = new_broker()
    diary = Diary(broker)
    async with broker.running():
        await broker.topics.create(TopicSpec("flights"))
        broker.topics.get("flights").partitions[0].log.append_nowait(make_batch([b"x" * 1_000_000]))
        stuck = await connect(broker)
        await stuck.send_all(long_poll() * 100)
        await wait_all_tasks_blocked()
        start = trio.current_time()
        broker.stop_at_once()
    assert trio.current_time() - start < 1
    assert diary.events == OPENED + CLOSED
    await stuck.aclose()


async def test_running_at_the_stop_finishes_background_jobs_before_partitions_close() -> None:
    broker, release, order = new_broker(), threading.Event(), list[str]()

    def job() -> None:
        release.wait(DEADLINE_S)
        order.append("job")

    async with trio.open_nursery() as nursery, broker.running():
        topic = await broker.topics.create(TopicSpec("flights"))
        close = topic.partitions[0].log.store.close

        def closed() -> None:
            order.append("close")
            close()

        topic.partitions[0].log.store.close = closed  # type: ignore[method-assign]
        broker.tasks.in_thread("slow job", job)

        async def let_it_go() -> None:
            await trio.sleep(0.05)
            release.set()

        nursery.start_soon(let_it_go)
    assert order == ["job", "close"]


async def test_a_partition_that_does_not_close_keeps_no_storage_open() -> None:
    broker = new_broker()
    diary = Diary(broker)
    async with broker.running():
        topic = await broker.topics.create(TopicSpec("flights"))

        def fail() -> None:
            raise OSError(5, "Input/output error")

        topic.partitions[0].log.store.close = fail  # type: ignore[method-assign]
    assert diary.events == OPENED + CLOSED


async def test_serve_ends_on_sigterm(capsys: pytest.CaptureFixture[str]) -> None:
    """SIGTERM ends `serve` when what is under way is answered."""
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "storage": "memory"}
    config, plugins = configure(Sources().over(settings_from_mapping(settings)))
    ready: list[Broker] = []

    def terminate(broker: Broker) -> None:
        ready.append(broker)
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        with trio.fail_after(DEADLINE_S):
            await serve(config, plugins, on_ready=terminate)
    finally:
        gc.unfreeze()
    assert len(ready) == 1


# Background


async def test_producer_expiry_removes_producers_after_producer_id_expiration_ms(
    autojump_clock: MockClock,
) -> None:
    clock = FakeClock()
    settings = {"producer.id.expiration.ms": 10_000, "producer.id.expiration.check.interval.ms": 1000}
    async with running_broker(settings, clock=clock) as broker:
        partition = (await broker.topics.create(TopicSpec("flights"))).partitions[0]
        partition.log.append_nowait(make_batch(producer_id=1, producer_epoch=0, base_sequence=0))
        await trio.sleep(5)
        assert set(partition.log.producers.entries) == {1}
        clock.advance(10_001)
        await trio.sleep(1.1)
        assert partition.log.producers.entries == {}
        assert broker.tasks.statistics()["producer-id-expiration"].failures == 0


async def test_tasks_of_plugins_run_with_the_broker(autojump_clock: MockClock) -> None:
    broker, ran = new_broker(), list[Broker]()

    async def run() -> None:
        ran.append(broker)

    async with broker.running():
        broker.tasks.start(PeriodicTask("of a plugin", run, 1000))
        await trio.sleep(2.5)
        assert len(ran) == 3


async def test_all_background_tasks_come_by_the_hook(tmp_path: Path) -> None:
    async with running_broker({"storage": "file", "log.dirs": str(tmp_path)}) as broker:
        await broker.coordinator.prepare_groups()
        await broker.coordinator.prepare_transactions()
        names = [task.name for task in broker.plugins.background_tasks(broker)]
        assert sorted(broker.tasks.statistics()) == sorted(names)
        # Of each of those that hand over some: the storage, the metadata store, the coordinator, the kernel.
        assert {"log-dir-moves", "metadata snapshots", "group-deadlines", "log-flusher"} <= set(names)


# Through a restart, on a disk


def settings_for(directory: Path) -> dict[str, object]:
    """A broker that keeps its data."""
    return {"storage": "file", "log.dirs": str(directory)}


async def test_running_restores_topics_records_and_producers_after_a_restart(tmp_path: Path) -> None:
    async with running_broker(settings_for(tmp_path)) as broker:
        topic = await broker.topics.create(TopicSpec("flights", 3, config={"max.message.bytes": "5000"}))
        for index, partition in enumerate(topic.partitions):
            for sequence in range(index):
                value = f"{index}-{sequence}".encode()
                partition.log.append_nowait(
                    make_batch([value], producer_id=7, producer_epoch=0, base_sequence=sequence)
                )
        cluster_id, first_id = broker.cluster.cluster_id, await broker.producer_ids.allocate()
    async with running_broker(settings_for(tmp_path)) as broker:
        again = broker.topics.get("flights")
        assert (again.topic_id, dict(again.overrides)) == (topic.topic_id, {"max.message.bytes": "5000"})
        assert broker.cluster.cluster_id == cluster_id
        assert await broker.producer_ids.allocate() > first_id
        for index, partition in enumerate(again.partitions):
            assert values_in(broker, index) == [f"{index}-{sequence}".encode() for sequence in range(index)]
            assert partition.leader_epoch >= topic.partitions[index].leader_epoch
            if index:
                last = make_batch([b"again"], producer_id=7, producer_epoch=0, base_sequence=index - 1)
                assert partition.log.append_nowait(last).base_offset == index - 1
                assert partition.log.log_end_offset == index


def values_in(broker: Broker, index: int) -> list[bytes | None]:
    """Values of all records of a partition of flights."""
    partition = broker.topics.get("flights").partitions[index]
    log = partition.log.read(0, 10_000, Isolation.READ_UNCOMMITTED, wait=True)
    data = bytearray()
    for region in log.regions:
        if isinstance(region, bytes | memoryview):
            data += region
        else:
            data += os.pread(region.file.fileno(), region.size, region.position)
    values: list[bytes | None] = []
    position = 0
    while position < len(data):
        header = parse_header(data, position)
        values += [record.value for record in iter_records(data[position : position + header.size], header)]
        position += header.size
    return values


async def test_running_after_a_restart_does_not_restore_a_deleted_topic(tmp_path: Path) -> None:
    async with running_broker(settings_for(tmp_path)) as broker:
        for name in ("kept", "gone"):
            await broker.topics.create(TopicSpec(name))
        await broker.topics.delete("gone")
    async with running_broker(settings_for(tmp_path)) as broker:
        assert [topic.name for topic in broker.topics] == ["kept"]


# Elsewhere than in trio


def test_a_broker_in_a_thread() -> None:
    with broker_in_thread() as running:
        host, _, port = running.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as client:
            client.sendall(HELLO)
            assert client.recv(4)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=DEADLINE_S)


def test_what_keeps_a_broker_in_a_thread_from_starting_is_raised() -> None:
    with (
        broker_in_thread() as first,
        pytest.raises(BaseExceptionGroup) as raised,
        broker_in_thread({"listeners": f"PLAINTEXT://{first.bootstrap}"}),
    ):
        pass
    assert isinstance(only_cause(raised.value), ConfigError)


def test_a_broker_that_names_no_storage_there_is_does_not_start() -> None:
    with pytest.raises(Exception, match="no-such-storage"):
        new_broker({"storage": "no-such-storage"})


@pytest.mark.parametrize(("host", "warnings"), [("127.0.0.1", 0), ("0.0.0.0", 1), ("", 1)])
async def test_a_broker_that_listens_beyond_loopback_warns_once(
    host: str, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    listeners = f"PLAINTEXT://{host}:0"
    async with running_broker({"listeners": listeners, "advertised.listeners": "PLAINTEXT://localhost:9092"}):
        assert caplog.text.count("neither TLS nor authentication") == warnings


READABLE = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256", "users.alice.password": "p"}


@pytest.mark.parametrize(
    ("protocol", "settings", "warning"),
    [
        ("SASL_PLAINTEXT", READABLE, "passwords of the SASL mechanism PLAIN can be read on their way"),
        ("SASL_PLAINTEXT", {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, ""),
        ("PLAINTEXT", {"authorizer.class.name": "standard"}, "allows User:ANONYMOUS"),
    ],
)
async def test_a_broker_that_listens_beyond_loopback_warns_of_what_others_may(
    protocol: str, settings: dict[str, str], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    listeners = {
        "listeners": f"{protocol}://0.0.0.0:0",
        "advertised.listeners": f"{protocol}://localhost:9092",
    }
    async with running_broker({**listeners, **settings}):
        found = [each.message for each in caplog.records if each.message.startswith(f"{protocol}://")]
    assert len(found) == bool(warning)
    assert warning in "".join(found)


async def test_the_windows_of_quotas_are_those_of_the_configuration() -> None:
    windows = {"quota.window.num": "5", "quota.window.size.seconds": "2"}
    of_mutations = {"controller.quota.window.num": "3", "controller.quota.window.size.seconds": "4"}
    alice = Principal("User", "alice")
    limits = {"producer_byte_rate": 10.0, "controller_mutation_rate": 1.0}
    async with running_broker(windows | of_mutations) as broker:
        assert not await broker.controller.alter_client_quotas({frozenset({("user", "alice")}): limits})
        quotas = broker.client_quotas
        assert quotas is not None
        produced = quotas.account(ClientQuotaType.PRODUCE, alice, "c")
        assert produced is not None
        # What four whole windows of 2 s have, and that of a second more.
        assert produced.charge(80) == 0
        assert produced.charge(10) == pytest.approx(1000, abs=50)
        mutations = quotas.mutations(alice, "c", strict=True)
        assert mutations is not None
        for amount in (12, 1):
            mutations.charge(amount)
        with pytest.raises(ThrottlingQuotaExceeded):
            mutations.charge(1)
        assert quotas.account(ClientQuotaType.PRODUCE, Principal("User", "bob"), "c") is None


def test_a_broker_without_a_coordinator_does_not_hide_mistakes() -> None:
    coordinator = _NoCoordinator()
    with pytest.raises(CoordinatorNotAvailable):
        _ = coordinator.groups
    with pytest.raises(AttributeError):
        _ = coordinator.grups


async def test_server_statistics_are_those_of_wire_protocols_that_count() -> None:
    async with running_broker() as broker:
        assert broker.server.statistics() == {"kafka": {}}
        host, port = broker.listeners["PLAINTEXT"].rsplit(":", 1)
        async with await trio.open_tcp_stream(host, int(port)):
            await until(lambda: broker.server.statistics()["kafka"], "the first connection")
            assert broker.server.statistics()["kafka"]["NumIncrementalFetchSessions"] == 0

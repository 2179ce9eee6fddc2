"""Fetch through interceptors: hidden and replaced records, in batches whose offsets stay."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import attrs
import pytest
import trio
import trio.testing

from tests.plugins.protocol_kafka.apis.client import PEER, Client
from tests.plugins.protocol_kafka.apis.topics import new_topic
from tests.plugins.protocol_kafka.interception.scripted import intercepting_broker
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import PolicyViolation
from tidelog.kernel.records.batch import HEADER_BYTES, BatchHeader, pack_batch, parse_header, split_batches
from tidelog.kernel.records.compression import codec_named, compress
from tidelog.kernel.records.message_set import Message, encode_message
from tidelog.kernel.records.record import Record, iter_records
from tidelog.kernel.records.stored import iter_stored, iter_stored_contents
from tidelog.kernel.seams.interceptors import BatchInfo, FetchInfo, Interceptor
from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.clock import START_MS
from tidelog.plugins.protocol_kafka.messages.api import FETCH
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)

TOPIC = "flights"
VERSION = 12


class Masking(Interceptor):
    """Hides records whose value begins with `-`, and masks all others."""

    def show(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | None]:
        for record in records:
            hidden = (record.value or b"").startswith(b"-")
            yield None if hidden else attrs.evolve(record, value=b"***")


async def fetch(
    client: Client,
    offset: int = 0,
    *,
    version: int = VERSION,
    session: tuple[int, int] = (0, -1),
    max_wait_ms: int = 0,
    named: bool = True,
) -> PartitionData:
    """What a fetch of the partition returns."""
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10**7)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=10**8,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=TOPIC, partitions=[asked])] if named else [],
    )
    response = await client.ask(FETCH, version, request)
    data: PartitionData = response.responses[0].partitions[0]
    return data


def batches(data: PartitionData) -> list[tuple[BatchHeader, list[Record]]]:
    """The batches of an answer, with their records."""
    assert data.records is not None
    content = memoryview(bytes(data.records))  # type: ignore[arg-type]
    return [(header, list(iter_records(batch, header))) for header, batch in split_batches(content)]


def contents(data: PartitionData) -> list[tuple[int, bytes | None]]:
    """Offsets and values of an answer."""
    return [(record.offset, record.value) for _, records in batches(data) for record in records]


def append(broker: Broker, batch: bytearray) -> None:
    broker.topics.get(TOPIC).partitions[0].log.append_nowait(batch)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_show_hides_and_replaces_records_and_keeps_offsets_and_headers(codec: str) -> None:
    async with intercepting_broker(it=Masking()) as broker:
        await new_topic(broker)
        for values in ([b"a", b"-b", b"c"], [b"-d", b"-e"], [b"f"]):
            batch = make_batch(values)
            if codec != "none":
                found, header = codec_named(codec), parse_header(batch)
                assert found is not None
                batch = pack_batch(
                    header._replace(attributes=found.id), compress(found.id, batch[HEADER_BYTES:])
                )
            append(broker, batch)
        data = await fetch(Client(broker))
        assert contents(data) == [(0, b"***"), (2, b"***"), (5, b"***")]
        headers = [header for header, _ in batches(data)]
        assert [(header.base_offset, header.last_offset, header.record_count) for header in headers] == [
            (0, 2, 2),
            (3, 4, 0),
            (5, 5, 1),
        ]
        # A client that continues behind a batch without records does not stand still.
        assert contents(await fetch(Client(broker), 4)) == [(5, b"***")]
        assert data.high_watermark == 6


async def test_what_is_stored_stays_as_it_is() -> None:
    async with intercepting_broker(it=Masking()) as broker:
        await new_topic(broker)
        append(broker, make_batch([b"secret"]))
        await fetch(Client(broker))
        (region,) = broker.topics.get(TOPIC).partitions[0].log.store.read_batches(0, 10**6, 1).regions
        assert b"secret" in bytes(region)  # type: ignore[arg-type]


@pytest.mark.parametrize("stored_in_files", [False, True])
async def test_fetch_sessions_and_waiting_fetches_are_intercepted(
    tmp_path: object, stored_in_files: bool
) -> None:
    settings = {"storage": "file", "log.dirs": str(tmp_path)} if stored_in_files else {}
    async with intercepting_broker(settings, it=Masking()) as broker:
        await new_topic(broker)
        client = Client(broker)
        append(broker, make_batch([b"a"]))
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10**7)
        opening = FetchRequest(
            max_wait_ms=0, min_bytes=1, session_epoch=0, topics=[FetchTopic(topic=TOPIC, partitions=[asked])]
        )
        response = await client.ask(FETCH, VERSION, opening)
        assert contents(response.responses[0].partitions[0]) == [(0, b"***")]
        session = response.session_id
        found: list[PartitionData] = []

        async def wait() -> None:
            found.append(await fetch(client, 1, session=(session, 1), max_wait_ms=60_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            append(broker, make_batch([b"b"]))
        assert contents(found[0]) == [(1, b"***")]


async def test_control_batches_and_aborted_transactions_stay() -> None:
    async with intercepting_broker(it=Masking()) as broker:
        topic = await new_topic(broker)
        log = topic.partitions[0].log
        batch = make_batch([b"a"], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        log.append_nowait(batch, in_transaction=True)
        log.append_marker(5, 0, 0, commit=False)
        client = Client(broker)
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10**7)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            isolation_level=1,
            session_epoch=-1,
            topics=[FetchTopic(topic=TOPIC, partitions=[asked])],
        )
        (data,) = (await client.ask(FETCH, VERSION, request)).responses[0].partitions
        assert [header.is_control for header, _ in batches(data)] == [False, True]
        assert [each.first_offset for each in data.aborted_transactions] == [0]
        assert batches(data)[0][0].is_transactional


@pytest.mark.parametrize("version", [0, 2, 3, 4, 7])
async def test_old_clients_and_old_messages_are_intercepted(version: int) -> None:
    messages = bytearray()
    for index, value in enumerate([b"a", b"-b", b"c"]):
        encode_message(messages, Message(index, START_MS, b"k", value), 1)
    async with intercepting_broker(it=Masking()) as broker:
        topic = await new_topic(broker)
        # As a log of Apache Kafka before 0.11 has them.
        topic.partitions[0].log.append_as_follower(messages)
        topic.partitions[0].log.advance_high_watermark(3)
        append(broker, make_batch([b"d", b"-e", b"f"]))
        data = await fetch(Client(broker), version=version)
        content = memoryview(bytes(data.records))  # type: ignore[arg-type]
        found = [
            (each.offset, each.value)
            for header, stored in iter_stored(content)
            for each in iter_stored_contents(stored, header, 10**6)
        ]
        assert found == [(0, b"***"), (2, b"***"), (3, b"***"), (5, b"***")]


class ForOthers(Masking):
    """Masks for all but one user, and refuses another."""

    def before_fetch(self, fetch: FetchInfo) -> bool:
        if fetch.principal.name == "mallory":
            raise PolicyViolation("not for mallory")
        return fetch.principal.name != "alice"


@pytest.mark.parametrize("version", [3, VERSION])
async def test_before_fetch_decides_by_the_client(version: int) -> None:
    async with intercepting_broker(it=ForOthers()) as broker:
        await new_topic(broker)
        append(broker, make_batch([b"plain"]))

        async def fetch_as(name: str) -> PartitionData:
            return await fetch(
                Client(broker, PEER._replace(principal=Principal("User", name))), version=version
            )

        assert b"plain" in bytes((await fetch_as("alice")).records)  # type: ignore[arg-type]
        assert b"***" in bytes((await fetch_as("bob")).records)  # type: ignore[arg-type]
        refused = await fetch_as("mallory")
        assert (refused.error_code, bytes(refused.records or b"")) == (ErrorCode.POLICY_VIOLATION, b"")  # type: ignore[arg-type]


class Raising(Interceptor):
    def show(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | None]:
        raise ZeroDivisionError


class Stuck(Interceptor):
    def __init__(self) -> None:
        self.released = threading.Event()

    def show(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | None]:
        self.released.wait()
        return records


@pytest.mark.parametrize("kind", [Raising, Stuck])
async def test_a_failure_that_is_passed_over_skips_no_other_interceptor(kind: type[Interceptor]) -> None:
    failing = kind()
    settings = {"interceptors.failing.on.failure": "pass", "interceptors.failing.timeout.ms": 10}
    async with intercepting_broker(settings, failing=failing, masking=Masking()) as broker:
        await new_topic(broker)
        append(broker, make_batch([b"secret"]))
        try:
            assert contents(await fetch(Client(broker))) == [(0, b"***")]
        finally:
            if isinstance(failing, Stuck):
                failing.released.set()


async def test_a_failure_refuses_the_partition_until_it_is_over() -> None:
    class Failing(Masking):
        fails = True

        def show(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | None]:
            if self.fails:
                raise KeyError
            return super().show(batch, records)

    failing = Failing()
    async with intercepting_broker(it=failing) as broker:
        await new_topic(broker)
        client = Client(broker)
        append(broker, make_batch([b"secret"]))
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10**7)
        opening = FetchRequest(
            max_wait_ms=0, min_bytes=1, session_epoch=0, topics=[FetchTopic(topic=TOPIC, partitions=[asked])]
        )
        response = await client.ask(FETCH, VERSION, opening)
        (data,) = response.responses[0].partitions
        assert (data.error_code, bytes(data.records)) == (ErrorCode.UNKNOWN_SERVER_ERROR, b"")
        failing.fails = False
        # The session reads it again though the client names it no more.
        data = await fetch(client, session=(response.session_id, 1), named=False)
        assert contents(data) == [(0, b"***")]


async def test_a_large_response_is_shown_in_parts() -> None:
    async with intercepting_broker({"message.max.bytes": 10**7}, it=Masking()) as broker:
        await new_topic(broker)
        for _ in range(12):
            append(broker, make_batch([b"v" * 1_000_000]))
        client = Client(broker)
        data = await fetch(client)
        last = contents(data)[-1][0]
        assert 5 <= last < 12
        assert contents(await fetch(client, last + 1))[0][0] == last + 1

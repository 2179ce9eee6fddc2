"""No input of a megabyte holds others up, fills the memory, or outlives its connection."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.deadlines import DEADLINE_S
from tidelog.kernel.records.compression import compress
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdRequest
from tidelog.plugins.protocol_kafka.messages.list_transactions import ListTransactionsRequest
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

from . import batches
from .case import SILENT
from .measured import (
    GROUPS,
    GROWTH_MB,
    HELD_MS,
    MORE_TRIES,
    TRANSACTIONS,
    Measured,
    check,
    find_coordinator,
    measured_broker,
)
from .mutations import spoiled_bytes, spoiled_fields
from .raw import RawConnection
from .raw_client import RawClient, fetch, produce
from .repeated import LARGEST, Repeated, repeated_arrays, request_of
from .requests import Sent, ask
from .running import SILENCE_S
from .samples import sample, served_versions
from .test_answers import TABLES

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.messages.api import Api

SEED = 4711
MOST = 0x7FFFFFFF
HARD_PATTERNS = ("(.?){999}z", "(.?){370}z", "(.*a){200}")
"""One that is refused, and two of which each character takes about 10 µs."""
CLOSE_WAIT = "08"
EMPTY_SNAPPY_BLOCK = b"\0\0\0\1\0"
XERIAL = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"


def _of_headers(codec: int) -> bytes:
    """One record with millions of empty headers."""
    headers = 4_000_000
    body = b"\0\0\0\1\1" + batches.varint(headers) + bytes(2 * headers)
    packed = compress(codec, batches.varint(len(body)) + body)
    return batches.batch(attributes=codec, body=packed, count=1, last_offset_delta=0)


def _of_zeros(codec: int) -> bytes:
    """One record of zeros, as large as a batch may unpack to."""
    value = bytes(200 << 20)
    packed = compress(codec, batches.record(value))
    return batches.batch(attributes=codec, body=packed, count=1, last_offset_delta=0)


def _of_empty_blocks() -> bytes:
    body = XERIAL + EMPTY_SNAPPY_BLOCK * 190_000
    return batches.batch(attributes=batches.SNAPPY, body=body, count=1, last_offset_delta=0)


def _of_small_records() -> bytes:
    return batches.batch([b""] * 80_000)


BOMBS: dict[str, Callable[[], bytes]] = {
    "headers, zstd": partial(_of_headers, batches.ZSTD),
    "headers, gzip": partial(_of_headers, batches.GZIP),
    "zeros, zstd": partial(_of_zeros, batches.ZSTD),
    "zeros, gzip": partial(_of_zeros, batches.GZIP),
    "empty snappy blocks": _of_empty_blocks,
    "small records": _of_small_records,
}


QUICK = {"frames", "headers, zstd", "small records"}
"""Tables and bombs of the tests that are not long."""


def _with_spoiled_bytes(client: RawClient, api: Api, version: int, chance: random.Random) -> bytes | None:
    return spoiled_bytes(ask(api, version, sample(client, api, version)).data, chance)


def _with_spoiled_fields(client: RawClient, api: Api, version: int, chance: random.Random) -> bytes | None:
    return spoiled_fields(api, version, sample(client, api, version), chance)


@pytest.mark.parametrize(
    "table", [pytest.param(table, marks=() if table in QUICK else pytest.mark.long) for table in TABLES]
)
def test_no_case_of_the_tables_holds_others_up(table: str, measured: Measured) -> None:
    for case in TABLES[table]:
        sends = case.sends(measured.client)
        requests = [sends] if isinstance(sends, Sent) else list(sends)
        outcome, _ = case.expected(of_tidelog=True)
        timeout_s = SILENCE_S if outcome == SILENT else DEADLINE_S
        effect = measured.effect_of(requests, timeout_s)
        assert effect.held_ms < HELD_MS, case.name
        assert effect.growth_mb < GROWTH_MB, case.name


@pytest.mark.long
@pytest.mark.parametrize("spoil", [_with_spoiled_bytes, _with_spoiled_fields], ids=["bytes", "fields"])
def test_no_spoiled_request_holds_others_up(
    spoil: Callable[[RawClient, Api, int, random.Random], bytes | None], measured: Measured
) -> None:
    chance = random.Random(SEED)
    for api, version in served_versions():
        spoiled = spoil(measured.client, api, version, chance)
        if spoiled is not None:
            check(measured.effect_of([Sent(spoiled, then_end=True)], SILENCE_S))


# After the tables, which read the topic that these make longer.
@pytest.mark.long
@pytest.mark.parametrize("repeated", repeated_arrays(), ids=str)
def test_no_repeated_element_holds_others_up(repeated: Repeated, measured: Measured) -> None:
    check(measured.effect_of([request_of(repeated, measured.client)]))


@pytest.mark.parametrize(
    "bomb", [pytest.param(bomb, marks=() if bomb in QUICK else pytest.mark.long) for bomb in BOMBS]
)
def test_no_bomb_holds_others_up(bomb: str, measured: Measured) -> None:
    batch = BOMBS[bomb]()
    assert len(batch) < LARGEST
    check(measured.effect_of([ask(apis.PRODUCE, 9, produce(measured.client.topic, batch))]))


def test_no_first_request_of_an_api_holds_others_up(tmp_path: Path) -> None:
    """The handler and the coordinator's services are imported for it."""
    with measured_broker(tmp_path, {}) as measured:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=measured.client.topic, partitions=[partition])
        commit = OffsetCommitRequest(group_id="first", topics=[topic])
        # At the second time all is imported: the first one alone counts.
        assert measured.measure([ask(apis.OFFSET_COMMIT, 8, commit)]).held_ms < HELD_MS


def test_no_pattern_over_topics_holds_others_up(measured: Measured) -> None:
    client = measured.client
    for number in range(150):
        client.create(f"{number:03}".ljust(249, "a"))
    find_coordinator(client, "patterns", GROUPS)
    for pattern in HARD_PATTERNS:
        # Each in a group that does not know it yet; the first one also waits for imports.
        effects = (measured.measure([_joining(pattern, str(number))]) for number in range(1 + MORE_TRIES))
        assert any(effect.held_ms < HELD_MS for effect in effects)


def _joining(pattern: str, group_id: str) -> Sent:
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=f"{group_id} {pattern}",
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_regex=pattern,
        topic_partitions=[],
    )
    return ask(apis.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat)


def test_no_pattern_over_transactional_ids_holds_others_up(measured: Measured) -> None:
    client = measured.client
    find_coordinator(client, "t", TRANSACTIONS)
    for number in range(20):
        init = InitProducerIdRequest(
            transactional_id=f"{number:02}".ljust(32_000, "a"), transaction_timeout_ms=1000
        )
        client.ask_well(ask(apis.INIT_PRODUCER_ID, 4, init))
    for pattern in HARD_PATTERNS:
        listing = ListTransactionsRequest(
            state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern
        )
        assert measured.effect_of([ask(apis.LIST_TRANSACTIONS, 2, listing)]).held_ms < HELD_MS


def test_no_socket_outlives_its_peer(measured: Measured) -> None:
    """A long poll of weeks, whose peer sends a byte more and leaves."""
    request = fetch(measured.client.topic, measured.client.end_offset(), max_wait_ms=MOST, min_bytes=MOST)
    for _ in range(20):
        with RawConnection(measured.server.bootstrap) as connection:
            connection.send(ask(apis.FETCH, 11, request).data + b"x")
            measured.ping()
    deadline = time.monotonic() + DEADLINE_S
    while _left_by_peers(measured.server.port):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _left_by_peers(port: int) -> int:
    """How many sockets of that local port wait to be closed by their owner."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == CLOSE_WAIT for line in lines)

"""No input of a megabyte holds others up, fills the memory, or outlives its connection.

A bystander pings while bad input comes in. How long the event loop is held is measured in CPU time by a gauge
in the broker, as this machine may be busy with other things.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import TidelogServer
from tidelog.kernel.records.compression import compress
from tidelog.plugins.protocol_kafka import keys
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.plugins.protocol_kafka.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tidelog.plugins.protocol_kafka.messages.elect_leaders import ElectLeadersRequest
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.plugins.protocol_kafka.messages.find_coordinator import FindCoordinatorRequest
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdRequest
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.plugins.protocol_kafka.messages.list_transactions import ListTransactionsRequest
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.offset_fetch import OffsetFetchRequest

from . import batches
from .case import SILENT
from .measured_broker import Gauge
from .mutations import spoiled_bytes, spoiled_fields
from .raw import ClosedByBrokerError, RawConnection
from .raw_client import RawClient, fetch, produce
from .repeated import LARGEST, Repeated, repeated_arrays, request_of
from .requests import Sent, ask
from .running import SILENCE_S
from .samples import sample, served_versions
from .test_answers import TABLES

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from tidelog.plugins.protocol_kafka.messages.api import Api

HELD_MS = 50.0
MORE_TRIES = 2
GROWTH_MB = 256.0
ANSWER_MB = 20.0
ANSWERED_WITHIN_S = 60.0
SEED = 4711
MOST = 0x7FFFFFFF
GROUPS, TRANSACTIONS = 0, 1
HARD_PATTERNS = ("(.?){999}z", "(.?){370}z", "(.*a){200}")
"""One that is refused, and two of which each character takes about 10 µs."""
LARGE_GROUP = "large"
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


@attrs.frozen
class Effect:
    """What some input did to a broker."""

    held_ms: float
    growth_mb: float
    answer_mb: float


@attrs.define
class Measured:
    """A broker with a gauge, a client for what is sent, and a bystander's connection."""

    server: TidelogServer
    gauge: Gauge
    client: RawClient
    bystander: RawConnection

    def effect_of(self, requests: Sequence[Sent], timeout_s: float = ANSWERED_WITHIN_S) -> Effect:
        """Send these over a new connection and take what is answered, while the bystander pings.

        Again if that took long: the first request of its kind has the broker import and compile something,
        and a busy machine lends its caches to others.
        """
        effect = self.measure(requests, timeout_s)
        for _ in range(MORE_TRIES):
            if effect.held_ms < HELD_MS:
                break
            effect = self.measure(requests, timeout_s)
        return effect

    def measure(self, requests: Sequence[Sent], timeout_s: float = ANSWERED_WITHIN_S) -> Effect:
        """Do that once."""
        self.ping()
        _process(self.server.pid, "clear_refs").write_text("5")
        before = self._memory_kb("VmRSS")
        self.gauge.reset()
        answered = 0
        with RawConnection(self.server.bootstrap) as connection:
            try:
                for sent in requests:
                    connection.send(sent.data)
                    self.ping()
                    if sent.then_end:
                        connection.end_sending()
                    answered += len(connection.frame(timeout_s))
            except (ClosedByBrokerError, TimeoutError):
                pass
        self.ping()
        held_ms, growth_kb = self.gauge.held_ms(), self._memory_kb("VmHWM") - before
        return Effect(held_ms, growth_kb / 1024, answered / 1e6)

    def ping(self) -> None:
        """The bystander asks, and is answered."""
        ping = ask(
            apis.API_VERSIONS,
            3,
            ApiVersionsRequest(client_software_name="bystander", client_software_version="1"),
        )
        self.bystander.send(ping.data)
        assert self.bystander.frame(ANSWERED_WITHIN_S)

    def _memory_kb(self, line: str) -> int:
        status = _process(self.server.pid, "status").read_text(encoding="ascii")
        return int(status.partition(f"{line}:")[2].split()[0])


def _process(pid: int, file: str) -> Path:
    return Path("/proc") / str(pid) / file


@contextmanager
def _measured_broker(work: Path, settings: Mapping[str, str]) -> Generator[Measured]:
    gauge = work / "gauge"
    server = TidelogServer(
        work,
        {"node.id": "1", "group.initial.rebalance.delay.ms": "0", **settings},
        launcher=(sys.executable, "-m", "tests.bad_input.measured_broker", str(gauge)),
        environment={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        server.start()
        with closing(RawClient(server.bootstrap)) as client, RawConnection(server.bootstrap) as bystander:
            yield Measured(server, Gauge(gauge), client, bystander)
        assert "Traceback" not in server.process.log_path.read_text()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """A broker of its own: others would be measured too."""
    with _measured_broker(tmp_path_factory.mktemp("measured"), {}) as broker:
        yield broker


def _with_spoiled_bytes(client: RawClient, api: Api, version: int, chance: random.Random) -> bytes | None:
    return spoiled_bytes(ask(api, version, sample(client, api, version)).data, chance)


def _with_spoiled_fields(client: RawClient, api: Api, version: int, chance: random.Random) -> bytes | None:
    return spoiled_fields(api, version, sample(client, api, version), chance)


def check(effect: Effect) -> None:
    """Within the limits."""
    assert effect.held_ms < HELD_MS
    assert effect.growth_mb < GROWTH_MB
    assert effect.answer_mb < ANSWER_MB


@pytest.mark.long
@pytest.mark.parametrize("repeated", repeated_arrays(), ids=str)
def test_no_repeated_element_holds_others_up(repeated: Repeated, measured: Measured) -> None:
    check(measured.effect_of([request_of(repeated, measured.client)]))


@pytest.mark.parametrize(
    "table", [pytest.param(table, marks=() if table in QUICK else pytest.mark.long) for table in TABLES]
)
def test_no_case_of_the_tables_holds_others_up(table: str, measured: Measured) -> None:
    for case in TABLES[table]:
        sends = case.sends(measured.client)
        requests = [sends] if isinstance(sends, Sent) else list(sends)
        outcome, _ = case.expected(of_tidelog=True)
        timeout_s = SILENCE_S if outcome == SILENT else ANSWERED_WITHIN_S
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


@pytest.mark.parametrize(
    "bomb", [pytest.param(bomb, marks=() if bomb in QUICK else pytest.mark.long) for bomb in BOMBS]
)
def test_no_bomb_holds_others_up(bomb: str, measured: Measured) -> None:
    batch = BOMBS[bomb]()
    assert len(batch) < LARGEST
    check(measured.effect_of([ask(apis.PRODUCE, 9, produce(measured.client.topic, batch))]))


def test_no_first_request_of_an_api_holds_others_up(tmp_path: Path) -> None:
    """The handler and the coordinator's services are imported for it."""
    with _measured_broker(tmp_path, {}) as measured:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=measured.client.topic, partitions=[partition])
        commit = OffsetCommitRequest(group_id="first", topics=[topic])
        # At the second time all is imported: the first one alone counts.
        assert measured.measure([ask(apis.OFFSET_COMMIT, 8, commit)]).held_ms < HELD_MS


def find_coordinator(client: RawClient, key: str, kind: int) -> None:
    """Wait until the coordinator serves requests."""
    client.ask_well(ask(apis.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=key, key_type=kind)))


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


def _indexes(count: int, topics: int) -> Iterator[tuple[str, range]]:
    """So many partitions of the topics with the most of them."""
    return ((f"large-{number}", range(count // topics)) for number in range(topics))


def _fetch_of(count: int, topics: int = 1) -> Sent:
    asked = [
        FetchTopic(
            topic=name,
            partitions=[FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1) for n in indexes],
        )
        for name, indexes in _indexes(count, topics)
    ]
    return ask(apis.FETCH, 11, FetchRequest(max_wait_ms=200, min_bytes=1, max_bytes=MOST, topics=asked))


def _commit_of(count: int, topics: int = 1) -> Sent:
    asked = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(partition_index=n, committed_offset=1, committed_metadata="")
                for n in indexes
            ],
        )
        for name, indexes in _indexes(count, topics)
    ]
    return ask(apis.OFFSET_COMMIT, 7, OffsetCommitRequest(group_id=LARGE_GROUP, topics=asked))


def _offsets_of(count: int, topics: int) -> Sent:
    asked = [
        ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=n, timestamp=-1) for n in indexes]
        )
        for name, indexes in _indexes(count, topics)
    ]
    return ask(apis.LIST_OFFSETS, 5, ListOffsetsRequest(replica_id=-1, topics=asked))


@pytest.mark.parametrize(
    ("request_", "answer_bytes"), [(_fetch_of(21_000), 21_000 * 30), (_commit_of(25_000), 25_000 * 6)]
)
def test_requests_of_a_large_cluster_are_served_beside_others(
    request_: Sent, answer_bytes: int, measured: Measured
) -> None:
    effect = measured.effect_of([request_])
    check(effect)
    assert effect.answer_mb * 1e6 > answer_bytes


TOPICS, PARTITIONS = 5, 50_000
LARGE_STATE: dict[str, Sent] = {
    "metadata": ask(apis.METADATA, 9, MetadataRequest(topics=None)),
    "describe topic partitions": ask(
        apis.DESCRIBE_TOPIC_PARTITIONS,
        0,
        DescribeTopicPartitionsRequest(topics=[], response_partition_limit=PARTITIONS),
    ),
    "fetch": _fetch_of(PARTITIONS, TOPICS),
    "list offsets": _offsets_of(PARTITIONS, TOPICS),
    "commit": _commit_of(PARTITIONS, TOPICS),
    "fetch offsets": ask(apis.OFFSET_FETCH, 7, OffsetFetchRequest(group_id=LARGE_GROUP, topics=None)),
    "log directories": ask(apis.DESCRIBE_LOG_DIRS, 1, DescribeLogDirsRequest(topics=None)),
    "elect leaders": ask(apis.ELECT_LEADERS, 2, ElectLeadersRequest(topic_partitions=None, timeout_ms=1000)),
}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """A broker with 50,000 partitions."""
    settings = {"storage": "memory", keys.MAX_REQUEST_PARTITION_SIZE_LIMIT.name: str(PARTITIONS)}
    with _measured_broker(tmp_path_factory.mktemp("large"), settings) as broker:
        for name, indexes in _indexes(PARTITIONS, TOPICS):
            broker.client.create(name, {}, len(indexes))
        find_coordinator(broker.client, LARGE_GROUP, GROUPS)
        yield broker


@pytest.mark.long
@pytest.mark.parametrize("request_", LARGE_STATE.values(), ids=LARGE_STATE)
def test_no_request_about_many_partitions_holds_others_up(request_: Sent, large: Measured) -> None:
    check(large.effect_of([request_]))


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

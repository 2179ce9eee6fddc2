"""What the driver asks the brokers, with a client whose cluster the test changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

import pytest

from tests.tables import for_each
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client import GroupOffset
from tidelog.plugins.client.cluster import NO_TOPIC_ID, ClusterMetadata, PartitionMetadata, TopicMetadata
from tidelog.plugins.client.errors import BrokerUnreachable, ClientError, ErrorResponse
from tidelog.plugins.client.operations.offsets import FoundOffset
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source import log_offsets
from tidelog.plugins.spark_sink.source.errors import DataLost
from tidelog.plugins.spark_sink.source.limits import OffsetLimit, TimestampLimit
from tidelog.plugins.spark_sink.source.log_offsets import LogOffsets
from tidelog.plugins.spark_sink.source.options import parse_options
from tidelog.plugins.spark_sink.source.query_position import QueryPosition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ID = UUID(int=7)
GONE = ErrorResponse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "a partition")


class Cluster:
    """Stands for client and cluster: topics a and b. Calls are kept, and may fail."""

    def __init__(self) -> None:
        self.ids: dict[str, UUID] = {"a": ID, "b": NO_TOPIC_ID}
        self.errors: dict[str, ErrorCode] = {}
        self.earliest: dict[TopicPartition, Any] = {A0: 1, A1: 2, B0: 3}
        self.latest: dict[TopicPartition, Any] = {A0: 11, A1: 12, B0: 13}
        self.at_times: dict[TopicPartition, Any] = {A0: 5, A1: -1, B0: 7}
        self.calls: list[str] = []
        self.asked: list[Any] = []
        self.failures: list[ClientError] = []
        self.slept: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.failures:
            raise self.failures.pop(0)

    def connect(self) -> None:
        """See BlockingClient."""
        self._called("connect")

    def close(self) -> None:
        """See BlockingClient."""
        self.calls.append("close")

    def metadata(self, topics: Collection[str] | None) -> ClusterMetadata:
        """See BlockingClient."""
        self._called("metadata")
        self.asked.append(topics)
        found = {
            name: TopicMetadata(
                name,
                each,
                False,
                tuple(
                    PartitionMetadata(part.partition, 0, 0, (0,), (0,), (), ErrorCode.NONE)
                    for part in (A0, A1, B0)
                    if part.topic == name
                ),
            )
            for name, each in self.ids.items()
            if name not in self.errors
        }
        return ClusterMetadata("id", 0, {}, found, dict(self.errors))

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        timestamp: int | Mapping[TopicPartition, int],
        *,
        read_committed: bool,
    ) -> dict[TopicPartition, Any]:
        """See BlockingClient."""
        self._called("list_offsets")
        self.asked.append((timestamp, read_committed))
        special = {-2: self.earliest, -1: self.latest}
        found = special[timestamp] if isinstance(timestamp, int) else self.at_times
        return {
            part: FoundOffset(found[part]) if isinstance(found[part], int) else found[part]
            for part in partitions
        }

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, GroupOffset]) -> dict[Any, Any]:
        """See BlockingClient."""
        self._called("commit_offsets")
        self.asked.append((group, offsets))
        return dict.fromkeys(offsets)

    def sleep(self, seconds: float) -> None:
        """Stand for time.sleep."""
        self.slept.append(seconds)
        self.on_sleep()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(log_offsets, "BlockingClient", lambda *args, **named: found)
    monkeypatch.setattr("tidelog.plugins.spark_sink.source.log_offsets.time.sleep", found.sleep)
    return found


def lookups(**given: str) -> LogOffsets:
    """The lookups of a query over both topics."""
    named = {name.replace("__", "."): value for name, value in given.items()}
    options = {"kafka.bootstrap.servers": "h:1", "fetchOffset.retryIntervalMs": "250", **named}
    if "assign" not in options:
        options["subscribe"] = "a,b"
    return LogOffsets(parse_options(options, streaming=True))


def test_ends_of_logs_are_those_of_all_partitions(cluster: Cluster) -> None:
    log = lookups(kafka__isolation__level="read_committed")
    assert (log.topic_id("a"), log.topic_ids()) == (None, {})
    assert log.latest() == {A0: 11, A1: 12, B0: 13}
    assert cluster.calls == ["connect", "metadata", "list_offsets"]
    assert cluster.asked == [("a", "b"), (-1, True)]
    assert (log.topic_id("a"), log.topic_id("b"), log.topic_ids()) == (ID, None, {"a": str(ID)})
    assert log.earliest([A1, B0]) == {A1: 2, B0: 3}
    assert cluster.calls[3:] == ["list_offsets"], "it is connected once"
    assert log.earliest([]) == {}
    assert len(cluster.calls) == 4, "nothing is asked for none"
    log.close()
    assert cluster.calls[4:] == ["close"]
    lookups().latest()
    assert cluster.asked[-1] == (-1, False)


def test_partitions_that_are_gone_are_left_out(cluster: Cluster) -> None:
    cluster.latest[A1] = cluster.earliest[B0] = GONE
    log = lookups()
    assert log.latest() == {A0: 11, B0: 13}
    assert log.earliest([A0, B0]) == {A0: 1}
    assert log.resolve(OffsetLimit("o", -2, {})) == {A0: 1, A1: 2}
    assert log.resolve(OffsetLimit("o", -1, {})) == {A0: 11, B0: 13}
    cluster.latest[A1] = ErrorResponse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "a partition")
    with pytest.raises(ErrorResponse, match="TOPIC_AUTHORIZATION_FAILED"):
        log.latest()


def test_a_topic_that_never_was_there_is_an_error_and_one_that_was_deleted_is_lost(cluster: Cluster) -> None:
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.errors["a"] = missing
    with pytest.raises(ErrorResponse, match=r"topic 'a': UNKNOWN_TOPIC_OR_PARTITION.*is it spelled right"):
        lookups().partitions()
    cluster.errors.clear()
    log, tolerant = lookups(), lookups(failOnDataLoss="false")
    assert log.partitions() == tolerant.partitions() == {A0, A1, B0}
    cluster.errors["a"] = missing
    with pytest.raises(DataLost, match="topic 'a' was deleted"):
        log.partitions()
    assert tolerant.partitions() == {B0}
    assert tolerant.topic_id("a") == ID, "so that it is known when it comes back"
    cluster.errors["a"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for each in (log, tolerant):
        with pytest.raises(ErrorResponse, match="TOPIC_AUTHORIZATION_FAILED"):
            each.partitions()


@for_each(("retries", "attempts"), [("1", 1), ("3", 3)])
def test_an_end_below_a_known_offset_is_requested_again(retries: str, attempts: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        cluster = Cluster()
        patch.setattr(log_offsets, "BlockingClient", lambda *args, **named: cluster)
        patch.setattr("tidelog.plugins.spark_sink.source.log_offsets.time.sleep", cluster.sleep)
        log = lookups(fetchOffset__numRetries=retries)
        assert log.latest(QueryPosition({A0: 12, B0: 13}, {})) == {A0: 11, A1: 12, B0: 13}
        assert cluster.slept == [0.25] * (attempts - 1)
        assert cluster.calls.count("list_offsets") == attempts


def test_an_end_is_requested_again_until_it_is_reached(cluster: Cluster) -> None:
    cluster.on_sleep = lambda: cluster.latest.update({A0: 12})
    assert lookups().latest(QueryPosition({A0: 12}, {}))[A0] == 12
    assert cluster.slept == [0.25]
    cluster.slept.clear()
    assert lookups().latest(QueryPosition({A0: 12, A1: 5}, {}))[A0] == 12
    created_again = QueryPosition({A0: 99}, {"a": str(UUID(int=8))})
    assert lookups().latest(created_again)[A0] == 12
    assert lookups().latest(QueryPosition({A0: 99}, {"b": "other"})) is not None
    assert cluster.slept == [0.25] * 2, "offsets of another topic of the name say nothing"


@for_each(
    ("failures", "slept", "calls"),
    [
        (1, [0.25], ["connect", "connect", "metadata", "list_offsets"]),
        (2, [0.25, 0.25], ["connect", "connect", "connect", "metadata", "list_offsets"]),
    ],
)
def test_what_fails_for_a_while_is_tried_again(failures: int, slept: list[float], calls: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        cluster = Cluster()
        patch.setattr(log_offsets, "BlockingClient", lambda *args, **named: cluster)
        patch.setattr("tidelog.plugins.spark_sink.source.log_offsets.time.sleep", cluster.sleep)
        cluster.failures = [BrokerUnreachable([]) for _ in range(failures)]
        assert lookups().latest()[A0] == 11
        assert (cluster.slept, cluster.calls) == (slept, calls)


def test_what_fails_too_often_or_for_good_is_raised(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.failures = [BrokerUnreachable([]) for _ in range(9)]
    with pytest.raises(BrokerUnreachable):
        lookups(fetchOffset__numRetries="2").latest()
    assert (len(cluster.failures), cluster.slept) == (7, [0.25])
    cluster.failures = [ErrorResponse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic 'a'")]
    with pytest.raises(ErrorResponse):
        lookups().latest()
    assert len(cluster.slept) == 1
    assert len([each for each in caplog.messages if each.startswith("offsets are requested again: ")]) == 1


@for_each(
    ("limit", "expected"),
    [
        (OffsetLimit("o", -2, {}), {A0: 1, A1: 2, B0: 3}),
        (OffsetLimit("o", -1, {}), {A0: 11, A1: 12, B0: 13}),
        (OffsetLimit("o", None, {A0: -2, A1: -1, B0: 0}), {A0: 1, A1: 12, B0: 0}),
        (TimestampLimit("o", 9, {}, must_match=False), {A0: 5, A1: 12, B0: 7}),
        (TimestampLimit("o", None, {A0: 1, A1: 2, B0: 3}, must_match=False), {A0: 5, A1: 12, B0: 7}),
    ],
)
def test_resolve(limit: OffsetLimit | TimestampLimit, expected: dict[TopicPartition, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        cluster = Cluster()
        patch.setattr(log_offsets, "BlockingClient", lambda *args, **named: cluster)
        assert lookups().resolve(limit) == expected


def test_resolve_refuses_a_time_without_records_and_other_partitions(cluster: Cluster) -> None:
    with pytest.raises(InvalidOption, match="no record of a-1 has the timestamp 9 of o or a later one"):
        lookups().resolve(TimestampLimit("o", 9, {}, must_match=True))
    for given, missing, unknown in (
        ({A0: 1}, "a-1, b-0", "none"),
        ({A0: 1, A1: 1, B0: 1, TopicPartition("c", 2): 1}, "none", "c-2"),
    ):
        with pytest.raises(InvalidOption, match=rf"missing: {missing}; not in the query: {unknown}\)"):
            lookups().resolve(OffsetLimit("o", None, given))


def test_a_position_is_committed_and_an_error_is_only_logged(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    log = lookups()
    log.commit("g", {A0: 5})
    assert cluster.asked == [("g", {A0: GroupOffset(5)})]
    cluster.failures = [BrokerUnreachable([])]
    with caplog.at_level(logging.WARNING):
        log.commit("g", {A0: 6})
    assert caplog.messages[0].startswith("the offsets of group 'g' were not committed: ")

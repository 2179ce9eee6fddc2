"""What the driver asks the brokers: the partitions of a query, and the offsets of their logs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar
from uuid import UUID

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    BlockingClient,
    GroupOffset,
    or_raise,
)
from tidelog.plugins.client.cluster import NO_TOPIC_ID
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.spark_sink.option_values import InvalidOption
from tidelog.plugins.spark_sink.source.errors import report_data_loss
from tidelog.plugins.spark_sink.source.limits import Limit, TimestampLimit
from tidelog.plugins.spark_sink.source.options import SourceOptions
from tidelog.plugins.spark_sink.source.positions import EARLIEST, LATEST, Positions
from tidelog.plugins.spark_sink.source.query_position import NOWHERE, QueryPosition
from tidelog.plugins.spark_sink.source.subscriptions import partitions_in

T = TypeVar("T")

log = logging.getLogger(__name__)


class LogOffsets:
    """Offsets of the logs that a query reads; it connects at its first use.

    Methods raise `ClientError`, after as many attempts as the query's options allow: the first connection is
    tried for seconds only, as its address may be wrong, a later one for as long as a restart may take.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client = BlockingClient(options.bootstrap_servers, settings=options.client)
        self._connected = False
        self._topic_ids: dict[str, UUID] = {}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def topic_id(self, topic: str) -> UUID | None:
        """Return the id of a topic whose partitions have been looked up, None if the broker has none."""
        found = self._topic_ids.get(topic, NO_TOPIC_ID)
        return None if found == NO_TOPIC_ID else found

    def topic_ids(self) -> dict[str, str]:
        """Return the ids of topics whose partitions have been looked up, without those that have none."""
        return {topic: str(each) for topic, each in self._topic_ids.items() if each != NO_TOPIC_ID}

    def partitions(self) -> frozenset[TopicPartition]:
        """Return the partitions that the query reads and that exist.

        Raises:
            ErrorResponse: a topic that the options name does not exist.
            DataLost: it does not exist any more, and that is to fail the query.
        """
        subscription = self._options.subscription
        metadata = self._attempt(lambda: self._client.metadata(subscription.topics))
        for name, code in metadata.errors.items():
            if code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or name not in self._topic_ids:
                raise ErrorResponse(code, f"topic {name!r}", "is it spelled right, and does it exist?")
            report_data_loss(f"topic {name!r} was deleted", fail=self._options.fail_on_data_loss)
        self._topic_ids |= {topic.name: topic.topic_id for topic in metadata.topics.values()}
        return partitions_in(metadata, subscription)

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offsets of partitions, without those that do not exist."""
        return self._list(partitions, EARLIEST_TIMESTAMP)

    def latest(self, known: QueryPosition = NOWHERE) -> dict[TopicPartition, int]:
        """Return the ends of what can be read of all partitions of the query.

        An end below a `known` offset of the same topic is requested again: a broker that has just started
        may lag behind.
        """
        found = self._list(self.partitions(), LATEST_TIMESTAMP)
        for _ in range(1, self._options.offset_attempts):
            reached = known.without(known.recreated(self.topic_ids())).offsets
            if all(offset >= reached.get(partition, 0) for partition, offset in found.items()):
                break
            time.sleep(self._options.offset_retry_s)
            found = self._list(self.partitions(), LATEST_TIMESTAMP)
        return found

    def resolve(self, limit: Limit) -> dict[TopicPartition, int]:
        """Return where a query begins or ends in each of its partitions.

        Raises:
            InvalidOption: the option names other partitions than those, or has no offset for a timestamp.
        """
        partitions = self.partitions()
        if isinstance(limit, TimestampLimit):
            found = self._at_timestamps(limit, partitions)
        else:
            found = _for_all(limit.option, limit.everywhere, limit.offsets, partitions)
        ends = {
            EARLIEST: self._list(_with_offset(found, EARLIEST), EARLIEST_TIMESTAMP),
            LATEST: self._list(_with_offset(found, LATEST), LATEST_TIMESTAMP),
        }
        # Without partitions that are gone since they were looked up.
        ends_or_offsets = {part: ends.get(offset, {part: offset}) for part, offset in found.items()}
        return {part: each[part] for part, each in ends_or_offsets.items() if part in each}

    def commit(self, group: str, positions: Positions) -> None:
        """Commit positions as those of a group, for tools that show its lag; an error is logged."""
        try:
            or_raise(
                self._client.commit_offsets(
                    group, {partition: GroupOffset(offset) for partition, offset in positions.items()}
                )
            )
        except ClientError as error:
            log.warning("the offsets of group %r were not committed: %s", group, error)

    def _at_timestamps(
        self, limit: TimestampLimit, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int]:
        timestamps = _for_all(limit.option, limit.everywhere, limit.timestamps, partitions)
        found = self._list(partitions, timestamps)
        for partition, offset in found.items():
            if offset == LATEST and limit.must_match:
                raise InvalidOption(
                    f"no record of {partition} has the timestamp {timestamps[partition]} of {limit.option} "
                    "or a later one; set startingOffsetsByTimestampStrategy to latest to begin at the end"
                )
        return found

    def _list(
        self, partitions: Collection[TopicPartition], timestamp: int | Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return offsets by timestamp, -1 where no record has it or a later one."""
        if not partitions:
            return {}
        outcomes = self._attempt(
            lambda: self._client.list_offsets(
                partitions, timestamp, read_committed=self._options.read_committed
            )
        )
        there = {part: found for part, found in outcomes.items() if not _is_gone(found)}
        return {part: found.offset for part, found in or_raise(there).items()}

    def _attempt(self, action: Callable[[], T]) -> T:
        for attempt in range(1, self._options.offset_attempts + 1):
            try:
                if not self._connected:
                    self._client.connect()
                    self._connected = True
                return action()
            except ClientError as error:
                if not error.retriable or attempt == self._options.offset_attempts:
                    raise
                log.warning("offsets are requested again: %s", error)
            time.sleep(self._options.offset_retry_s)
        raise AssertionError("there is at least one attempt")


def _is_gone(outcome: object) -> bool:
    return isinstance(outcome, ErrorResponse) and outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _with_offset(found: Positions, offset: int) -> list[TopicPartition]:
    return [partition for partition, each in found.items() if each == offset]


def _for_all(
    option: str, everywhere: int | None, by_partition: Positions, partitions: frozenset[TopicPartition]
) -> dict[TopicPartition, int]:
    if everywhere is not None:
        return dict.fromkeys(partitions, everywhere)
    if frozenset(by_partition) != partitions:
        missing = ", ".join(map(str, sorted(partitions - by_partition.keys()))) or "none"
        unknown = ", ".join(map(str, sorted(by_partition.keys() - partitions))) or "none"
        raise InvalidOption(
            f"the option {option} has to have all partitions of the query and no others (missing: {missing}; "
            f"not in the query: {unknown}). An offset of -2 is the earliest, -1 the latest"
        )
    return dict(by_partition)

"""Fetch: the data of partitions from given offsets on, within fetch sessions or without."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.cluster import NO_TOPIC_ID
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.fetch_sessions import (
    NO_SESSION,
    WITHOUT_SESSION,
    FetchSession,
    SessionRequest,
    WantedPartition,
)
from tidelog.plugins.client.fetched import Fetched
from tidelog.plugins.client.operations.metadata import LedPartitions, at_leaders
from tidelog.plugins.client.operations.sending import Outcomes, or_raise, retry_each, send_request
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.plugins.client.fetch_sessions import FetchSessions
    from tidelog.plugins.client.steps import Session, Steps

LAST_VERSION_BY_NAME: Final = 12
"""Last version of Fetch that identifies topics by name."""
NO_DATA: Final = memoryview(b"")
MOST_FETCH_BYTES: Final = 0x7FFFFFFF
"""Limits of a Fetch are of 32 bits."""


@attrs.frozen
class FetchLimits:
    """Limits of a fetch; the defaults are those of Kafka's consumers.

    Attributes:
        max_bytes: of one response; its first batch is returned whole even if it is larger
        min_bytes: the broker waits for at least so many bytes
        max_wait_ms: the longest time for which the broker waits
        read_committed: read up to the last stable offset, without records of aborted transactions
        max_partition_bytes: of one partition in a response, None for `max_bytes`
        rack: rack of the reader, so that a broker can name a replica that is nearer (KIP-392); empty for none
    """

    max_bytes: int = 1024 * 1024
    min_bytes: int = 1
    max_wait_ms: int = 500
    read_committed: bool = False
    max_partition_bytes: int | None = None
    rack: str = ""

    @property
    def partition_bytes(self) -> int:
        """Return the limit of one partition."""
        return self.max_bytes if self.max_partition_bytes is None else self.max_partition_bytes

    def doubled(self) -> FetchLimits:
        """Return limits for a batch that did not fit."""
        return attrs.evolve(
            self,
            max_bytes=min(2 * self.max_bytes, MOST_FETCH_BYTES),
            max_partition_bytes=min(2 * self.partition_bytes, MOST_FETCH_BYTES),
        )


DEFAULT_LIMITS: Final = FetchLimits()


def fetch(
    session: Session, partition: TopicPartition, offset: int, limits: FetchLimits = DEFAULT_LIMITS
) -> Steps[Fetched]:
    """Return the data of one Fetch from `offset` on; empty when none arrives in time.

    Raises:
        ErrorResponse: with OFFSET_OUT_OF_RANGE, the offset is below the log start offset or above the log
            end.
        ClientError: the leader did not answer.
    """
    outcomes = yield from fetch_partitions(session, {partition: offset}, limits)
    return or_raise(outcomes)[partition]


def fetch_partitions(
    session: Session,
    offsets: Mapping[TopicPartition, int],
    limits: FetchLimits = DEFAULT_LIMITS,
    fetch_sessions: FetchSessions | None = None,
) -> Steps[Outcomes[TopicPartition, Fetched]]:
    """Return the data of several partitions, each from its offset on, with one request to each leader.

    A partition of an old broker whose first batch the limits have cut is requested again with doubled ones,
    up to `max_response_bytes` of the client's settings.

    The limits are those of each request. With several leaders the longest wait is divided among them, and a
    partition may be empty only because others fill its leader's response. With `fetch_sessions` a request
    names only what has changed since the last call (KIP-227). Retriable errors are retried.
    """
    first, limits_now = True, limits

    def attempt(pending: list[TopicPartition]) -> Steps[Outcomes[TopicPartition, Fetched]]:
        nonlocal first
        # Retries are about some of the partitions, which would remove the others from the sessions.
        sessions, first = (fetch_sessions if first else None), False
        wanted = _Wanted({partition: offsets[partition] for partition in pending}, limits_now, sessions)
        return (yield from at_leaders(session, pending, lambda led: _fetch_from_leader(session, led, wanted)))

    outcomes = yield from retry_each(session, offsets, attempt, lambda error: error.retriable)
    while (cut := _cut(outcomes)) and 2 * limits_now.partition_bytes <= session.settings.max_response_bytes:
        limits_now = limits_now.doubled()
        outcomes |= yield from retry_each(session, cut, attempt, lambda error: error.retriable)
    return outcomes


def close_fetch_sessions(session: Session, fetch_sessions: FetchSessions) -> Steps[None]:
    """Close the sessions at their brokers, which otherwise keep them until they need the place.

    A broker that does not answer is no error.
    """
    for node, each in fetch_sessions.open_sessions().items():
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=each.session_id,
            session_epoch=WITHOUT_SESSION,
            topics=[],
        )
        with suppress(ClientError):
            yield from send_request(session, request, node=node)
        each.responded(NO_SESSION, ErrorCode.NONE)


def _cut(outcomes: Outcomes[TopicPartition, Fetched]) -> list[TopicPartition]:
    return [part for part, outcome in outcomes.items() if isinstance(outcome, Fetched) and outcome.is_cut]


@attrs.frozen
class _Wanted:
    """One call of `fetch_partitions`."""

    offsets: Mapping[TopicPartition, int]
    limits: FetchLimits
    sessions: FetchSessions | None


def _fetch_from_leader(
    session: Session, led: LedPartitions, wanted: _Wanted
) -> Steps[Outcomes[TopicPartition, Fetched]]:
    limits = attrs.evolve(wanted.limits, max_wait_ms=wanted.limits.max_wait_ms // led.leaders)
    requested = {
        part: WantedPartition(
            session.cluster.topic_id(part.topic), wanted.offsets[part], limits.partition_bytes
        )
        for part in led.partitions
    }
    fetch_session = None if wanted.sessions is None else wanted.sessions.with_node(led.leader)
    return (yield from fetch_from_node(session, led.leader, requested, limits, fetch_session))


def fetch_from_node(
    session: Session,
    node: int,
    wanted: Mapping[TopicPartition, WantedPartition],
    limits: FetchLimits,
    fetch_session: FetchSession | None = None,
) -> Steps[Outcomes[TopicPartition, Fetched]]:
    """Return the data of partitions that a broker has, with one request and without a retry.

    Without a fetch session the request is one outside of a session.

    Raises:
        ErrorResponse: the broker refuses the request as a whole.
        ClientError: the broker did not answer.
    """
    topic_ids = {part.topic: each.topic_id for part, each in wanted.items()}
    by_name = NO_TOPIC_ID in topic_ids.values()
    if by_name:
        wanted = {part: attrs.evolve(each, topic_id=NO_TOPIC_ID) for part, each in wanted.items()}
    session_now = FetchSession() if fetch_session is None else fetch_session
    asked = session_now.request(wanted)
    if fetch_session is None:
        asked = attrs.evolve(asked, epoch=WITHOUT_SESSION)
    try:
        answer: FetchResponse = yield from send_request(
            session,
            _request(asked, limits),
            node=node,
            at_most=LAST_VERSION_BY_NAME if by_name else None,
            max_delay_s=limits.max_wait_ms / 1000,
        )
    except ClientError:
        session_now.failed()
        raise
    code = ErrorCode.of(answer.error_code)
    session_now.responded(answer.session_id, code)
    if code:
        others = f" and {len(wanted) - 1} others" if len(wanted) > 1 else ""
        raise ErrorResponse(code, f"{next(iter(wanted))}{others}")
    return _outcomes(asked, wanted, _answered(answer, topic_ids), session_now, answer.throttle_time_ms)


def _request(asked: SessionRequest, limits: FetchLimits) -> FetchRequest:
    topics: dict[str, FetchTopic] = {}
    for partition, wanted in asked.partitions.items():
        topic = topics.setdefault(
            partition.topic, FetchTopic(topic=partition.topic, topic_id=wanted.topic_id.bytes, partitions=[])
        )
        topic.partitions.append(
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.offset,
                partition_max_bytes=wanted.max_bytes,
            )
        )
    removed: dict[tuple[str, UUID], list[int]] = {}
    for partition, wanted in asked.removed.items():
        removed.setdefault((partition.topic, wanted.topic_id), []).append(partition.partition)
    return FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=int(limits.read_committed),
        session_id=asked.session_id,
        session_epoch=asked.epoch,
        rack_id=limits.rack,
        topics=list(topics.values()),
        forgotten_topics_data=[
            ForgottenTopic(topic=name, topic_id=topic_id.bytes, partitions=indexes)
            for (name, topic_id), indexes in removed.items()
        ],
    )


def _answered(answer: FetchResponse, topic_ids: Mapping[str, UUID]) -> dict[TopicPartition, PartitionData]:
    names = {topic_id.bytes: name for name, topic_id in topic_ids.items()}
    return {
        TopicPartition(topic.topic or names.get(bytes(topic.topic_id), ""), part.partition_index): part
        for topic in answer.responses
        for part in topic.partitions
    }


def _outcomes(
    asked: SessionRequest,
    requested: Mapping[TopicPartition, WantedPartition],
    answered: Mapping[TopicPartition, PartitionData],
    fetch_session: FetchSession,
    throttle_time_ms: int,
) -> Outcomes[TopicPartition, Fetched]:
    outcomes: Outcomes[TopicPartition, Fetched] = {}
    for partition, wanted in requested.items():
        part, latest = answered.get(partition), fetch_session.latest.get(partition)
        if part is not None:
            outcome = outcomes[partition] = _outcome(partition, wanted.offset, part)
            if isinstance(outcome, Fetched):
                fetch_session.latest[partition] = attrs.evolve(
                    outcome, data=NO_DATA, aborted=(), preferred_replica=-1
                )
        elif latest is not None and not asked.is_full:
            outcomes[partition] = attrs.evolve(latest, offset=wanted.offset)
        elif throttle_time_ms:
            # A broker whose quota is used up responds without any partition (KIP-219).
            outcomes[partition] = ErrorResponse(ErrorCode.THROTTLING_QUOTA_EXCEEDED, str(partition))
        else:
            outcomes[partition] = ErrorResponse.missing(str(partition))
    return outcomes


def _outcome(partition: TopicPartition, offset: int, part: PartitionData) -> Fetched | ErrorResponse:
    if part.error_code:
        return ErrorResponse(ErrorCode.of(part.error_code), str(partition), f"offset {offset}")
    return Fetched(
        partition,
        offset,
        part.high_watermark,
        part.last_stable_offset,
        part.log_start_offset,
        part.records if isinstance(part.records, memoryview) else NO_DATA,
        [(aborted.producer_id, aborted.first_offset) for aborted in part.aborted_transactions or ()],
        part.preferred_read_replica,
    )

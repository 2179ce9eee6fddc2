"""Fetch sessions without a broker: which partitions are in each request."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.client.fetch_sessions import FetchSession, FetchSessions, SessionRequest, WantedPartition
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

OLD, NEW = UUID(int=1), UUID(int=2)
PARTITIONS = [TopicPartition("orders", index) for index in range(4)]


def wanted(*offsets: int, topic_id: UUID = OLD) -> dict[TopicPartition, WantedPartition]:
    """Return the first partitions with these offsets."""
    return {
        part: WantedPartition(topic_id, offset, 100)
        for part, offset in zip(PARTITIONS, offsets, strict=False)
    }


def opened(*offsets: int) -> FetchSession:
    session = FetchSession()
    session.request(wanted(*offsets))
    session.responded(77, ErrorCode.NONE)
    return session


def test_fetch_session_opens_with_a_full_request() -> None:
    session = FetchSession()
    asked = session.request(wanted(5, 6))
    assert (asked.session_id, asked.epoch, asked.is_full) == (0, 0, True)
    assert asked.partitions == wanted(5, 6)


def test_fetch_session_requests_only_what_has_changed() -> None:
    session = opened(5, 6)
    asked = session.request(wanted(5, 9, 0))
    assert (asked.session_id, asked.epoch, asked.is_full) == (77, 1, False)
    assert {part.partition: what.offset for part, what in asked.partitions.items()} == {1: 9, 2: 0}
    session.responded(77, ErrorCode.NONE)
    asked = session.request(wanted(5))
    assert (asked.epoch, asked.partitions, list(asked.removed)) == (2, {}, PARTITIONS[1:3])


def test_fetch_session_replaces_the_partitions_of_a_recreated_topic() -> None:
    session = opened(5)
    asked = session.request(wanted(5, topic_id=NEW))
    assert asked.partitions == wanted(5, topic_id=NEW)
    assert asked.removed == wanted(5)


def test_fetch_session_without_a_place_at_the_broker_stays_full() -> None:
    session = FetchSession()
    for _ in range(2):
        assert session.request(wanted(5)).is_full
        session.responded(0, ErrorCode.NONE)


def test_fetch_session_that_the_broker_has_closed_begins_again() -> None:
    session = opened(5)
    session.request(wanted(5))
    session.responded(0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    asked = session.request(wanted(5))
    assert (asked.session_id, asked.epoch, asked.partitions) == (0, 0, wanted(5))


def test_fetch_session_after_an_error_replaces_itself_with_a_full_request() -> None:
    for fail in (FetchSession.failed, lambda each: each.responded(0, ErrorCode.INVALID_FETCH_SESSION_EPOCH)):
        session = opened(5)
        session.request(wanted(5))
        fail(session)
        asked = session.request(wanted(5))
        assert (asked.session_id, asked.epoch, asked.is_full) == (77, 0, True)
        session.responded(78, ErrorCode.NONE)
        assert (session.session_id, session.epoch) == (78, 1)


def test_fetch_session_epoch_wraps_to_1() -> None:
    session = opened(5)
    session.epoch = 0x7FFFFFFF
    session.responded(77, ErrorCode.NONE)
    assert session.epoch == 1


def test_fetch_sessions_are_one_for_each_node() -> None:
    sessions = FetchSessions()
    sessions.with_node(1).responded(5, ErrorCode.NONE)
    assert sessions.with_node(2).session_id == 0
    assert sessions.open_sessions() == {1: sessions.with_node(1)}


def served(
    partitions: Mapping[TopicPartition, WantedPartition], asked: SessionRequest
) -> dict[TopicPartition, WantedPartition]:
    """Return the partitions of a broker's session after a request."""
    if asked.is_full:
        return dict(asked.partitions)
    kept = {part: what for part, what in partitions.items() if part not in asked.removed}
    return {**kept, **asked.partitions}


@given(
    calls=st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from(PARTITIONS), st.integers(0, 3), min_size=1),
            st.sampled_from([OLD, NEW]),
            st.sampled_from(["responded", "failed", "not found"]),
        ),
        max_size=12,
    )
)
def test_fetch_session_leads_the_broker_to_exactly_what_is_wanted(
    calls: list[tuple[dict[TopicPartition, int], UUID, str]],
) -> None:
    session, at_broker = FetchSession(), dict[TopicPartition, WantedPartition]()
    for offsets, topic_id, outcome in calls:
        now = {part: WantedPartition(topic_id, offset, 100) for part, offset in offsets.items()}
        at_broker = served(at_broker, session.request(now))
        assert at_broker == now
        if outcome == "responded":
            session.responded(77, ErrorCode.NONE)
        elif outcome == "failed":
            session.failed()
        else:
            session.responded(0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

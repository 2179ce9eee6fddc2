"""Which fetch sessions have a place in the cache, and which of them make way for others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.seams.partition import Isolation
from tidelog.plugins.protocol_kafka.fetch_session import MAX_EPOCH, IncrementalFetchSession, next_epoch
from tidelog.plugins.protocol_kafka.fetch_session_cache import (
    MAX_SESSION_PARTITIONS,
    MIN_EVICTION_S,
    PARTITIONS_PER_SLOT,
    FetchSessionCache,
)
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchTopic
from tidelog.plugins.protocol_kafka.wait_timer import WaitTimer

LONG_S = MIN_EVICTION_S + 1
FOLLOWER, CONSUMER = True, False


class Cache:
    """A cache with a clock."""

    def __init__(self, slots: int) -> None:
        self.now = 0.0
        self.cache = FetchSessionCache(slots, lambda: self.now, WaitTimer(lambda *_: None))

    def open(self, size: int, *, privileged: bool = CONSUMER) -> IncrementalFetchSession | None:
        """Open a session, None if there is no place for it."""
        if not self.cache.make_way(size, privileged=privileged):
            return None
        session = IncrementalFetchSession(
            privileged=privileged, uses_topic_ids=False, isolation=Isolation.READ_UNCOMMITTED
        )
        resize(session, size)
        self.cache.add(session)
        return session

    def must_open(self, size: int, *, privileged: bool = CONSUMER) -> IncrementalFetchSession:
        """Open a session that has a place."""
        session = self.open(size, privileged=privileged)
        assert session is not None
        return session

    def has(self, session: IncrementalFetchSession) -> bool:
        """Whether a session is in the cache."""
        return self.cache.get(session.id) is session


def resize(session: IncrementalFetchSession, size: int) -> None:
    """Let a session have partitions 0 to `size` - 1."""
    topic = FetchTopic(topic="t", partitions=[])
    for index in range(session.size, size):
        session.add(topic, FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1))


def test_statistics_have_the_names_of_kafkas_metrics() -> None:
    cache = Cache(2)
    cache.must_open(3)
    cache.must_open(4)
    cache.now = LONG_S
    cache.must_open(5)
    assert cache.cache.statistics() == {
        "NumIncrementalFetchSessions": 2,
        "NumIncrementalFetchPartitionsCached": 9,
        "IncrementalFetchSessionEvictionsPerSec": 1,
    }


@pytest.mark.parametrize(("epoch", "following"), [(0, 1), (1, 2), (MAX_EPOCH - 1, MAX_EPOCH), (MAX_EPOCH, 1)])
def test_next_epoch_wraps_to_one(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following


def test_fetch_session_cache_gives_positive_ids_that_differ() -> None:
    cache = Cache(500)
    sessions = [cache.must_open(1) for _ in range(500)]
    ids = {session.id for session in sessions}
    assert len(ids) == len(cache.cache) == cache.cache.partitions == 500
    assert all(0 < each < 2**31 for each in ids)
    assert all(map(cache.has, sessions))


def test_fetch_session_cache_without_slots_has_no_session() -> None:
    assert Cache(0).open(1) is None


@pytest.mark.parametrize(
    ("old", "age_s", "unused_s", "new", "evicted"),
    [
        # A session that was not used for long makes way for any other.
        ((5, FOLLOWER), LONG_S, LONG_S, (1, CONSUMER), True),
        ((5, CONSUMER), MIN_EVICTION_S, MIN_EVICTION_S, (1, CONSUMER), False),
        # One that was used recently makes way for a larger one, if it is not new itself.
        ((5, CONSUMER), LONG_S, 0, (6, CONSUMER), True),
        ((5, CONSUMER), LONG_S, 0, (5, CONSUMER), False),
        ((5, CONSUMER), LONG_S, 0, (4, CONSUMER), False),
        ((5, CONSUMER), MIN_EVICTION_S, 0, (6, CONSUMER), False),
        # A follower's may take the place of a consumer's, however new or large that is, but not the reverse.
        ((5, CONSUMER), 0, 0, (1, FOLLOWER), True),
        ((5, FOLLOWER), LONG_S, 0, (9, CONSUMER), False),
        ((5, FOLLOWER), LONG_S, 0, (6, FOLLOWER), True),
        ((5, FOLLOWER), LONG_S, 0, (5, FOLLOWER), False),
        ((5, FOLLOWER), 0, 0, (6, FOLLOWER), False),
    ],
)
def test_fetch_session_cache_evicts_by_age_privilege_and_size(
    old: tuple[int, bool], age_s: float, unused_s: float, new: tuple[int, bool], evicted: bool
) -> None:
    cache = Cache(1)
    first = cache.must_open(old[0], privileged=old[1])
    cache.now = age_s - unused_s
    cache.cache.touch(first)
    cache.now = age_s
    second = cache.open(new[0], privileged=new[1])
    assert (second is not None, cache.has(first)) == (evicted, not evicted)
    assert cache.cache.evictions == evicted
    assert cache.cache.partitions == (new if evicted else old)[0]


def test_fetch_session_cache_evicts_the_least_recently_used_and_then_the_smallest() -> None:
    cache = Cache(3)
    large, small, unused = (cache.must_open(size) for size in (9, 2, 99))
    cache.now = LONG_S
    for session in (small, large):
        cache.cache.touch(session)
    cache.must_open(1)
    assert (cache.has(unused), cache.has(small), cache.has(large)) == (False, True, True)
    cache.must_open(3)
    assert (cache.has(small), cache.has(large)) == (False, True)
    assert cache.open(3) is None


def test_fetch_session_cache_compares_with_the_size_after_the_last_request() -> None:
    cache = Cache(1)
    session = cache.must_open(1)
    cache.now = LONG_S
    resize(session, 8)
    assert cache.cache.touch(session)
    assert cache.cache.partitions == 8
    assert cache.open(8) is None
    assert cache.open(9) is not None


def test_fetch_session_cache_limits_the_partitions_of_all_sessions() -> None:
    cache = Cache(4)
    most = 4 * PARTITIONS_PER_SLOT
    first, second = cache.must_open(most - 10), cache.must_open(10)
    assert cache.open(1) is None
    cache.cache.remove(first.id)
    assert cache.open(most) is None
    third = cache.must_open(most - 10)
    resize(third, most - 9)
    assert not cache.cache.touch(third)
    assert (cache.has(third), cache.has(second), cache.cache.partitions) == (False, True, 10)


def test_fetch_session_cache_evicts_several_for_a_large_one() -> None:
    cache = Cache(4)
    small = [cache.must_open(PARTITIONS_PER_SLOT) for _ in range(4)]
    cache.now = LONG_S
    for session in small:
        cache.cache.touch(session)
    assert cache.open(2 * PARTITIONS_PER_SLOT) is not None
    assert list(map(cache.has, small)).count(True) == 2


def test_fetch_session_cache_limits_one_session() -> None:
    cache = Cache(1000)
    assert cache.open(MAX_SESSION_PARTITIONS + 1) is None
    session = cache.must_open(MAX_SESSION_PARTITIONS)
    resize(session, MAX_SESSION_PARTITIONS + 1)
    assert not cache.cache.touch(session)
    assert len(cache.cache) == cache.cache.partitions == 0


steps = st.one_of(
    st.tuples(st.just("open"), st.integers(0, 9), st.booleans()),
    st.tuples(st.sampled_from(["use", "grow", "remove"]), st.integers(0, 9)),
    st.tuples(st.just("wait"), st.sampled_from([1, 60, 121])),
)


@given(st.integers(0, 4), st.lists(steps, max_size=60))
def test_fetch_session_cache_stays_within_its_limits(slots: int, taken: list[tuple[object, ...]]) -> None:
    cache = Cache(slots)
    sessions: list[IncrementalFetchSession] = []
    for step in taken:
        match step:
            case ("open", int(size), bool(privileged)):
                if (session := cache.open(size, privileged=privileged)) is not None:
                    sessions.append(session)
            case ("wait", int(seconds)):
                cache.now += seconds
            case (kind, int(number)) if there := [each for each in sessions if cache.has(each)]:
                session = there[number % len(there)]
                if kind == "remove":
                    cache.cache.remove(session.id)
                else:
                    resize(session, session.size + (kind == "grow"))
                    assert cache.cache.touch(session)
            case _:
                pass
        there = [each for each in sessions if cache.has(each)]
        assert len(cache.cache) == len(there) <= slots
        assert cache.cache.partitions == sum(each.size for each in there)
        evictable = {value.session_id for value in cache.cache.evictable_by_privileged}
        assert evictable <= {each.id for each in there}
        assert {value.session_id for value in cache.cache.evictable_by_all} <= evictable

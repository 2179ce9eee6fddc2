"""The fetch sessions of all clients of a broker (KIP-227), and which of them make way for others.

Source: KIP-227, "Fetch Session Caching"; Apache Kafka's `FetchSessionCacheShard`. There is one shard here.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.fetch_session import IncrementalFetchSession
    from tidelog.plugins.protocol_kafka.wait_timer import WaitTimer

MIN_EVICTION_S: Final = 120.0
"""How long a session is unused before any other may take its place; Kafka has a constant, too."""
MAX_SESSION_PARTITIONS: Final = 10_000
"""Partitions of one session, so that it is closed within some milliseconds."""
PARTITIONS_PER_SLOT: Final = 250
"""For each slot all sessions together may have so many partitions, which take some hundred bytes each."""
MAX_SESSION_ID: Final = 0x7FFFFFFF

# Not the generator of the process: a program that has a broker may have seeded that one.
_random = random.SystemRandom()


class _Value(NamedTuple):
    """What a session is worth: the least comes first."""

    privileged: bool
    size: int
    session_id: int


class _Entry:
    """A session in the cache; `value` is as the cache has it sorted."""

    __slots__ = ("created_at", "is_old", "session", "used_at", "value")

    def __init__(self, session: IncrementalFetchSession, now: float) -> None:
        self.session = session
        self.created_at = self.used_at = now
        self.is_old = False
        self.value = _Value(session.privileged, session.size, session.id)


class FetchSessionCache:
    """Up to `slots` sessions; `clock` gives seconds.

    Attributes:
        timer: ends the waits of their requests
        partitions: how many partitions all sessions have
        evictions: how many sessions made way for another one
        evictable_by_all: what may make way for any session that is worth more, the least first
        evictable_by_privileged: what may make way for such a session of a follower
    """

    def __init__(self, slots: int, clock: Callable[[], float], timer: WaitTimer) -> None:
        self.timer = timer
        self._slots = slots
        self._max_partitions = slots * PARTITIONS_PER_SLOT
        self._clock = clock
        # The one that is unused for longest comes first.
        self._entries: dict[int, _Entry] = {}
        self.evictable_by_all: list[_Value] = []
        self.evictable_by_privileged: list[_Value] = []
        self.partitions = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._entries)

    def statistics(self) -> Mapping[str, int]:
        """Return the sessions, their partitions and the evictions so far, by the names of Kafka's metrics."""
        return {
            "NumIncrementalFetchSessions": len(self._entries),
            "NumIncrementalFetchPartitionsCached": self.partitions,
            "IncrementalFetchSessionEvictionsPerSec": self.evictions,
        }

    def get(self, session_id: int) -> IncrementalFetchSession | None:
        """Return the session with that id, None without one."""
        entry = self._entries.get(session_id)
        return None if entry is None else entry.session

    def make_way(self, size: int, *, privileged: bool) -> bool:
        """Return whether a session of `size` partitions has a place, evicting others that are worth less."""
        if size > MAX_SESSION_PARTITIONS:
            return False
        while len(self._entries) >= self._slots or self.partitions + size > self._max_partitions:
            evicted = self._find_evictable(_Value(privileged, size, 0))
            if evicted is None:
                return False
            self.remove(evicted)
            self.evictions += 1
        return True

    def add(self, session: IncrementalFetchSession) -> None:
        """Add a session for which `make_way` has made a place, and give it an id."""
        session.id = _random.randint(1, MAX_SESSION_ID)
        while session.id in self._entries:
            session.id = _random.randint(1, MAX_SESSION_ID)
        entry = self._entries[session.id] = _Entry(session, self._clock())
        self.partitions += session.size
        if not session.privileged:
            insort(self.evictable_by_privileged, entry.value)

    def touch(self, session: IncrementalFetchSession) -> bool:
        """Note that a session is used, and its present size, unless it was removed.

        Return False if it is too large now; then it is not in the cache any more.
        """
        entry = self._entries.pop(session.id, None)
        # Removed while a large update of it was read: this request is still answered.
        if entry is None:
            return True
        # What is used comes last.
        self._entries[session.id] = entry
        now = entry.used_at = self._clock()
        size = session.size
        is_old = now - entry.created_at > MIN_EVICTION_S
        if size != entry.value.size or is_old != entry.is_old:
            self._sort(entry, size, is_old=is_old)
        if size > MAX_SESSION_PARTITIONS or self.partitions > self._max_partitions:
            self.remove(session.id)
            return False
        return True

    def remove(self, session_id: int) -> None:
        """Remove a session, if it is there, and close it."""
        entry = self._entries.pop(session_id, None)
        if entry is not None:
            _discard(self.evictable_by_all, entry.value)
            _discard(self.evictable_by_privileged, entry.value)
            self.partitions -= entry.value.size
            entry.session.close()

    def _sort(self, entry: _Entry, size: int, *, is_old: bool) -> None:
        _discard(self.evictable_by_all, entry.value)
        _discard(self.evictable_by_privileged, entry.value)
        self.partitions += size - entry.value.size
        value = entry.value = entry.value._replace(size=size)
        entry.is_old = is_old
        if is_old:
            insort(self.evictable_by_all, value)
        if is_old or not value.privileged:
            insort(self.evictable_by_privileged, value)

    def _find_evictable(self, other: _Value) -> int | None:
        """Return the id of a session that one with the value `other` may replace, None without one.

        That is one that was not used for long, or else the one that is worth least, if it is worth less:
        privileged ones may replace any other, and the rest what was not created recently.
        """
        oldest = next(iter(self._entries.values()), None)
        if oldest is None:
            return None
        if self._clock() - oldest.used_at > MIN_EVICTION_S:
            return oldest.session.id
        evictable = self.evictable_by_privileged if other.privileged else self.evictable_by_all
        return evictable[0].session_id if evictable and evictable[0] <= other else None


def _discard(values: list[_Value], value: _Value) -> None:
    index = bisect_left(values, value)
    if index < len(values) and values[index] == value:
        del values[index]

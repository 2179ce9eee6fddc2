"""Fetch sessions: a broker keeps the partitions that a client fetches, and requests only name what changed.

A session begins with a full request, which names every partition. Later, incremental requests name only
partitions whose offset or limit is another one, and those to remove; their responses leave out partitions
without news. A broker that has no place for a session responds with session id 0: then every request is a
full one.

Source: KIP-227; KIP-516 for topic ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final
from uuid import UUID

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.fetched import Fetched
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

NO_SESSION: Final = 0
FULL: Final = 0
"""Epoch of a full request that opens a session."""
WITHOUT_SESSION: Final = -1
"""Epoch of a full request outside of a session; with a session id it closes that session."""

_MAX_EPOCH: Final = 0x7FFFFFFF


@attrs.frozen
class WantedPartition:
    """What a fetch requests of one partition; the topic id is all zeros when topics are named.

    With a `leader_epoch`, -1 for none, a broker that has another one responds with an error (KIP-320).
    """

    topic_id: UUID
    offset: int
    max_bytes: int
    leader_epoch: int = -1


@attrs.frozen
class SessionRequest:
    """Fields of a Fetch request that depend on the session."""

    session_id: int
    epoch: int
    partitions: Mapping[TopicPartition, WantedPartition]
    removed: Mapping[TopicPartition, WantedPartition]

    @property
    def is_full(self) -> bool:
        """Return whether the response has every partition of the request."""
        return self.epoch in (FULL, WITHOUT_SESSION)


@attrs.define
class FetchSession:
    """Fetch session with one broker; every request is followed by `responded` or `failed`.

    Attributes:
        session_id: the broker's id of the session, 0 without one
        epoch: the epoch of the next request
        latest: by partition, the last response that had it, without its data; incremental ones need not
    """

    session_id: int = attrs.field(default=NO_SESSION, init=False)
    epoch: int = attrs.field(default=FULL, init=False)
    latest: dict[TopicPartition, Fetched] = attrs.field(factory=dict[TopicPartition, Fetched], init=False)
    _partitions: dict[TopicPartition, WantedPartition] = attrs.field(
        factory=dict[TopicPartition, WantedPartition], init=False
    )

    def request(self, wanted: Mapping[TopicPartition, WantedPartition]) -> SessionRequest:
        """Return what to send, so that the response is about exactly the `wanted` partitions."""
        # Even if the request fails: `failed` makes the next one full, which needs nothing of what was before.
        before, self._partitions = self._partitions, dict(wanted)
        if self.epoch == FULL:
            return SessionRequest(self.session_id, FULL, wanted, {})
        # A topic that was deleted and created again is another partition to the broker.
        changed = {part: what for part, what in wanted.items() if before.get(part) != what}
        removed = {
            part: what
            for part, what in before.items()
            if part not in wanted or wanted[part].topic_id != what.topic_id
        }
        return SessionRequest(self.session_id, self.epoch, changed, removed)

    def responded(self, session_id: int, error: ErrorCode) -> None:
        """Continue as the response to the last request says; after an error the next request is a full one.

        A full request with the id of a session closes it and opens another one.
        """
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND or (session_id == NO_SESSION and not error):
            self.session_id, self.epoch = NO_SESSION, FULL
        elif error:
            self.epoch = FULL
        elif session_id != self.session_id or self.epoch == FULL:
            self.session_id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1

    def failed(self) -> None:
        """Continue with a full request: it is not known whether the broker got the last one."""
        self.epoch = FULL


@attrs.define
class FetchSessions:
    """Fetch sessions of one reader, one with each leader, by node id."""

    _by_node: defaultdict[int, FetchSession] = attrs.field(
        factory=lambda: defaultdict[int, FetchSession](FetchSession), init=False
    )

    def with_node(self, node: int) -> FetchSession:
        """Return the session with a broker, a new one at the first call."""
        return self._by_node[node]

    def open_sessions(self) -> dict[int, FetchSession]:
        """Return the sessions that brokers keep, by node id."""
        return {node: each for node, each in self._by_node.items() if each.session_id != NO_SESSION}

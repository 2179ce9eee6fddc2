"""A member of a classic group."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs

from tidelog.kernel.seams.coordination.groups import GroupProtocol, Joined, Synced
from tidelog.plugins.coordinator.groups.replies import Reply

NO_ASSIGNMENT = b""


@attrs.define(eq=False)
class Member:
    """A member: its identity, protocols, assignment, and the requests of it that wait.

    `protocols` maps a protocol's name to the member's metadata in it, in the member's order of preference.
    `deadline_ms` is when its session ends, None while it cannot. A member is new until its first generation
    begins: it may not know its id yet and cannot send heartbeats.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Mapping[str, bytes]
    assignment: bytes = NO_ASSIGNMENT
    is_new: bool = False
    deadline_ms: int | None = None
    awaiting_join: Reply[Joined] | None = None
    awaiting_sync: Reply[Synced] | None = None

    @property
    def is_static(self) -> bool:
        """Return whether the member has an instance id (KIP-345)."""
        return self.group_instance_id is not None

    def vote(self, candidates: Collection[str]) -> str:
        """Return the candidate that it prefers; it supports one of them."""
        return next(name for name in self.protocols if name in candidates)

    def is_overdue(self, now_ms: int) -> bool:
        """Return whether its session has ended."""
        return self.deadline_ms is not None and self.deadline_ms <= now_ms

    def is_excused(self) -> bool:
        """Return whether it need not send heartbeats: it is not new, and a request of it waits."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)


def by_name(protocols: Sequence[GroupProtocol]) -> dict[str, bytes]:
    """Return metadata by protocol, in order of preference; of duplicate names the first counts."""
    found: dict[str, bytes] = {}
    for protocol in protocols:
        found.setdefault(protocol.name, protocol.metadata)
    return found

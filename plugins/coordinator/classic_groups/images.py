"""What of a group is kept over a restart, and when that is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import attrs

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.coordinator.groups.replies import Durable


class MemberImage(NamedTuple):
    """A member: `subscription` is its metadata in the protocol that the group uses."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@attrs.frozen
class GroupImage:
    """A generation whose assignment is known, or a group without members."""

    group_id: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str | None
    members: Sequence[MemberImage]


def _go_on(durable: Durable | None) -> None:
    """Nothing depends on it."""


def _go_on_without(error: BrokerError) -> None:
    """An older generation may be found at the next start; its members will not be, and it ends by itself."""


class Write(NamedTuple):
    """An image that is to be written. Whoever does it calls `written` or `failed`, at once."""

    image: GroupImage
    written: Callable[[Durable | None], None] = _go_on
    failed: Callable[[BrokerError], None] = _go_on_without

"""States of a member of a classic group, and what moves it from one to another: a table, without time or I/O.

    UNJOINED ──START──▶ PREPARING ──PREPARED──▶ JOINING ──JOINED──▶ SYNCING ──SYNCED──▶ STABLE
                            ▲                                                             │
                            └───────────────────────── REBALANCE ─────────────────────────┘

Source: Apache Kafka 4.4, `AbstractCoordinator`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class ClassicMemberState(Enum):
    """Where a member is; its text completes "the member"."""

    UNJOINED = "is not in the group"
    PREPARING = "waits for the user to give up partitions before it joins again"
    JOINING = "waits for the next generation"
    SYNCING = "waits for its assignment"
    STABLE = "has its assignment"
    LEFT = "has left the group"


class ClassicMemberEvent(Enum):
    """What happens to a member."""

    START = "there is a subscription"
    PREPARED = "the user has given up what it had to"
    JOINED = "the next generation has begun"
    SYNCED = "the assignment is there"
    REBALANCE = "the group begins another generation"
    LOST = "the coordinator does not know the member any more"
    LEAVE = "the consumer is closed, or its subscription ends"


_S = ClassicMemberState
_E = ClassicMemberEvent
TRANSITIONS: Final = {
    (_S.UNJOINED, _E.START): _S.PREPARING,
    (_S.PREPARING, _E.PREPARED): _S.JOINING,
    (_S.JOINING, _E.JOINED): _S.SYNCING,
    (_S.JOINING, _E.REBALANCE): _S.JOINING,
    (_S.SYNCING, _E.SYNCED): _S.STABLE,
    (_S.SYNCING, _E.REBALANCE): _S.JOINING,
    (_S.STABLE, _E.REBALANCE): _S.PREPARING,
    # The user is already asked to give partitions up.
    (_S.PREPARING, _E.REBALANCE): _S.PREPARING,
    (_S.PREPARING, _E.LOST): _S.UNJOINED,
    (_S.JOINING, _E.LOST): _S.UNJOINED,
    (_S.SYNCING, _E.LOST): _S.UNJOINED,
    (_S.STABLE, _E.LOST): _S.UNJOINED,
    (_S.UNJOINED, _E.LEAVE): _S.LEFT,
    (_S.PREPARING, _E.LEAVE): _S.LEFT,
    (_S.JOINING, _E.LEAVE): _S.LEFT,
    (_S.SYNCING, _E.LEAVE): _S.LEFT,
    (_S.STABLE, _E.LEAVE): _S.LEFT,
    (_S.LEFT, _E.START): _S.PREPARING,
}
"""The next state by state and event; what is missing does not happen."""
BEATING: Final = (_S.PREPARING, _S.STABLE)
"""States in which a member sends heartbeats; in the others the coordinator waits for its requests."""

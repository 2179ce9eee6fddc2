"""States of a member of a group of the consumer protocol (KIP-848): a table, without time or I/O.

    UNJOINED ──START──▶ JOINING ──ASSIGNED──▶ RECONCILING ──RECONCILED──▶ ACKNOWLEDGING
                           │                     ▲    ▲                    │         │
                         JOINED                  │    └──────ASSIGNED──────┘    ACKNOWLEDGED
                           │                  ASSIGNED                               │
                           └─────────────────▶ STABLE ◀──────────────────────────────┘

Source: Apache Kafka 4.4, `MemberState` and `AbstractMembershipManager`. Its states of fenced and stale
members are UNJOINED here, and the calls of listeners belong to the user's side.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class ConsumerMemberState(Enum):
    """Where a member is; its text completes "the member"."""

    UNJOINED = "is not in the group"
    JOINING = "waits for its epoch and its assignment"
    RECONCILING = "has the user give up and take partitions, until it has those of its assignment"
    ACKNOWLEDGING = "has its assignment, which the coordinator does not know yet"
    STABLE = "has its assignment"
    LEFT = "has left the group"


class ConsumerMemberEvent(Enum):
    """What happens to a member."""

    START = "there is a subscription"
    JOINED = "the coordinator knows the member"
    ASSIGNED = "the coordinator has sent an assignment"
    RECONCILED = "the user has given up and taken what it had to"
    ACKNOWLEDGED = "the coordinator knows what the member owns"
    LOST = "the coordinator does not know the member any more, or the user does not poll"
    LEAVE = "the consumer is closed, or its subscription ends"


_S = ConsumerMemberState
_E = ConsumerMemberEvent
_JOINED: Final = (_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE)
CONSUMER_TRANSITIONS: Final = {
    (_S.UNJOINED, _E.START): _S.JOINING,
    (_S.LEFT, _E.START): _S.JOINING,
    (_S.JOINING, _E.JOINED): _S.STABLE,
    **{(state, _E.ASSIGNED): _S.RECONCILING for state in _JOINED},
    (_S.RECONCILING, _E.RECONCILED): _S.ACKNOWLEDGING,
    (_S.ACKNOWLEDGING, _E.ACKNOWLEDGED): _S.STABLE,
    **{(state, _E.LOST): _S.UNJOINED for state in _JOINED},
    **{(state, _E.LEAVE): _S.LEFT for state in (_S.UNJOINED, *_JOINED)},
}
"""The next state by state and event; what is missing does not happen."""
IN_GROUP: Final = frozenset(_JOINED)
"""States in which a member sends heartbeats."""

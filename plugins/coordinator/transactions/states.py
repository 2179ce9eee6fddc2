"""The states of a transaction as tables: which state follows which event, and what a request to end does.

A transition that is not in a table is illegal. Source: Kafka's `TransactionState`; KIP-890 for the second
table of ends.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from tidelog.kernel.errors import InvalidTransactionState
from tidelog.kernel.seams.coordination.transactions import TransactionState

EMPTY: Final = TransactionState.EMPTY
ONGOING: Final = TransactionState.ONGOING
PREPARE_COMMIT: Final = TransactionState.PREPARE_COMMIT
PREPARE_ABORT: Final = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT: Final = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT: Final = TransactionState.COMPLETE_ABORT
DEAD: Final = TransactionState.DEAD
PREPARE_EPOCH_FENCE: Final = TransactionState.PREPARE_EPOCH_FENCE

AT_REST: Final = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
"""No transaction is open, and no decision is being carried out."""
PREPARED: Final = frozenset({PREPARE_COMMIT, PREPARE_ABORT})
"""Decided, and markers may still be missing."""

COMMIT: Final = True
ABORT: Final = False


class Event(enum.Enum):
    """An event in the life of a transaction."""

    INIT = enum.auto()
    ADD = enum.auto()
    FENCE = enum.auto()
    COMMIT = enum.auto()
    ABORT = enum.auto()
    MARKED = enum.auto()
    EXPIRE = enum.auto()


MOVES: Final[Mapping[tuple[TransactionState, Event], TransactionState]] = {
    (EMPTY, Event.INIT): EMPTY,
    (EMPTY, Event.ADD): ONGOING,
    (EMPTY, Event.ABORT): PREPARE_ABORT,
    (EMPTY, Event.EXPIRE): DEAD,
    (ONGOING, Event.ADD): ONGOING,
    (ONGOING, Event.COMMIT): PREPARE_COMMIT,
    (ONGOING, Event.ABORT): PREPARE_ABORT,
    (ONGOING, Event.FENCE): PREPARE_EPOCH_FENCE,
    (PREPARE_EPOCH_FENCE, Event.ABORT): PREPARE_ABORT,
    (PREPARE_COMMIT, Event.MARKED): COMPLETE_COMMIT,
    (PREPARE_ABORT, Event.MARKED): COMPLETE_ABORT,
    (COMPLETE_COMMIT, Event.INIT): EMPTY,
    (COMPLETE_COMMIT, Event.ADD): ONGOING,
    (COMPLETE_COMMIT, Event.ABORT): PREPARE_ABORT,
    (COMPLETE_COMMIT, Event.EXPIRE): DEAD,
    (COMPLETE_ABORT, Event.INIT): EMPTY,
    (COMPLETE_ABORT, Event.ADD): ONGOING,
    (COMPLETE_ABORT, Event.ABORT): PREPARE_ABORT,
    (COMPLETE_ABORT, Event.EXPIRE): DEAD,
}


class Verdict(enum.Enum):
    """The result of a request to end a transaction."""

    DECIDE = enum.auto()
    """Decide now."""
    DONE = enum.auto()
    """It was decided before, and the response was lost."""


ENDS: Final[Mapping[tuple[TransactionState, bool], Verdict]] = {
    (ONGOING, COMMIT): Verdict.DECIDE,
    (ONGOING, ABORT): Verdict.DECIDE,
    (COMPLETE_COMMIT, COMMIT): Verdict.DONE,
    (COMPLETE_ABORT, ABORT): Verdict.DONE,
}
"""(state, commit) before transaction version 2: one epoch serves many transactions.

While a decision is being carried out every request has to wait, so those states are in neither table."""

CURRENT: Final = False
RETRY: Final = True

ENDS_WITH_EPOCHS: Final[Mapping[tuple[TransactionState, bool, bool], Verdict]] = {
    (ONGOING, COMMIT, CURRENT): Verdict.DECIDE,
    (ONGOING, ABORT, CURRENT): Verdict.DECIDE,
    (EMPTY, ABORT, CURRENT): Verdict.DECIDE,
    (COMPLETE_COMMIT, ABORT, CURRENT): Verdict.DECIDE,
    (COMPLETE_ABORT, ABORT, CURRENT): Verdict.DECIDE,
    (COMPLETE_COMMIT, COMMIT, RETRY): Verdict.DONE,
    (COMPLETE_ABORT, ABORT, RETRY): Verdict.DONE,
}
"""(state, commit, whether the request has the previous epoch) from version 2 on.

A client that cannot know whether its transaction has begun may abort one that never did."""

EPOCHS_ACCEPTED: Final[Mapping[TransactionState, frozenset[bool]]] = {
    EMPTY: frozenset({CURRENT}),
    ONGOING: frozenset({CURRENT}),
    COMPLETE_COMMIT: frozenset({CURRENT, RETRY}),
    COMPLETE_ABORT: frozenset({CURRENT, RETRY}),
}
"""The epochs that a request of version 2 may have; with any other its producer is fenced."""


def move(state: TransactionState, event: Event) -> TransactionState:
    """Return the state after `event`.

    Raises:
        InvalidTransactionState: that cannot happen in `state`.
    """
    following = MOVES.get((state, event))
    if following is None:
        raise InvalidTransactionState(f"a transaction in state {state.title} cannot {event.name.lower()}")
    return following

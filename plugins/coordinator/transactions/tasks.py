"""The deadlines of transactions: what is looked at again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tidelog.kernel.seams.tasks import PeriodicTask
from tidelog.plugins.coordinator.transactions.keys import (
    ABORT_TIMED_OUT_INTERVAL_MS,
    REMOVE_EXPIRED_INTERVAL_MS,
)

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.plugins.coordinator.transactions.service import Transactions

COMPLETION_INTERVAL_MS: Final = 200
"""How soon markers are tried again; with nothing to write a look costs next to nothing."""


def periodic_tasks(transactions: Transactions, config: Config) -> Sequence[PeriodicTask]:
    """Completing decisions, aborting what is overdue, forgetting what expired."""
    abort_ms, remove_ms = config[ABORT_TIMED_OUT_INTERVAL_MS], config[REMOVE_EXPIRED_INTERVAL_MS]
    return (
        PeriodicTask("transaction-completion", transactions.complete_prepared, COMPLETION_INTERVAL_MS),
        PeriodicTask("transaction-abort", transactions.abort_overdue, abort_ms, abort_ms),
        PeriodicTask("transactional-id-expiration", transactions.remove_expired, remove_ms, remove_ms),
    )

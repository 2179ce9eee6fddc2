"""Which transactional ids a tool wants to see."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.kernel.seams.coordination.transactions import TransactionFilter
from tidelog.plugins.coordinator.consumer_groups.regexes import compile_regex
from tidelog.plugins.coordinator.transactions.transaction import Transaction


def matcher(wanted: TransactionFilter, now_ms: int) -> Callable[[Transaction], bool]:
    """Tells whether a transaction passes every filter.

    Raises:
        InvalidRegularExpression: the pattern is none in RE2's syntax, or too large.
    """
    pattern = compile_regex(wanted.pattern) if wanted.pattern else None

    def matches(transaction: Transaction) -> bool:
        if wanted.states is not None and transaction.state not in wanted.states:
            return False
        if wanted.producer_ids and transaction.producer_id not in wanted.producer_ids:
            return False
        if 0 <= wanted.open_longer_than_ms >= now_ms - transaction.start_ms:
            return False
        return pattern is None or pattern.fullmatch(transaction.transactional_id) is not None

    return matches

"""Which transactional ids a tool wants to see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tidelog.kernel.coordination.transactions import TransactionFilter
from tidelog.kernel.errors import InvalidRegularExpression
from tidelog.plugins.coordinator.transactions.transaction import Transaction

MAX_PATTERN_CHARACTERS: Final = 1000


def matching(
    transactions: Iterable[Transaction], wanted: TransactionFilter, now_ms: int
) -> Iterator[Transaction]:
    """Those that pass every filter.

    Raises:
        InvalidRegularExpression: the pattern is none, or too long.
    """
    pattern = _compiled(wanted.pattern) if wanted.pattern else None
    for transaction in transactions:
        if wanted.states is not None and transaction.state not in wanted.states:
            continue
        if wanted.producer_ids and transaction.producer_id not in wanted.producer_ids:
            continue
        if 0 <= wanted.open_longer_than_ms >= now_ms - transaction.start_ms:
            continue
        if pattern is None or pattern.fullmatch(transaction.transactional_id):
            yield transaction


def _compiled(pattern: str) -> re.Pattern[str]:
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise InvalidRegularExpression(
            f"a pattern of {len(pattern)} characters is longer than {MAX_PATTERN_CHARACTERS}"
        )
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidRegularExpression(f"{pattern!r} is not a regular expression: {error}") from None

"""Times as people write them, in milliseconds since the epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp_ms(text: str) -> int:
    """Parse an ISO 8601 date or time, in UTC if it names no zone, or milliseconds since the epoch.

    Raises:
        ValueError: it is neither, or before 1970.
    """
    if re.fullmatch(r"\d{5,18}", text):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = _EPOCH - timedelta(days=1)
    moment = found if found.tzinfo else found.replace(tzinfo=UTC)
    if moment < _EPOCH:
        raise ValueError(
            f"{text!r} is no time since 1970, such as 2026-01-31, 2026-01-31T12:30:00Z or 1769862600000"
        )
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def iso_time(timestamp: int | str) -> str:
    """Return milliseconds since the epoch as a time in UTC, or as they are if they are too many for that."""
    try:
        return (_EPOCH + timedelta(milliseconds=int(timestamp))).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return str(timestamp)

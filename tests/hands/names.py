"""Names of every kind of hash: Kafka finds the state of groups and transactional ids by it."""

from __future__ import annotations

from typing import Final

NAMES: Final = {
    "positive": "group",
    "negative": "my-group",
    "smallest": "polygenelubricants",
    "zero": "f5a5a608",
    "outside the basic plane": "🐋-🦊-a",
}
"""By what is special about it."""

"""The names of topics: Kafka's rules for them, and those that brokers use themselves."""

from __future__ import annotations

import re

from tidelog.kernel.errors import InvalidTopic

MAX_NAME_LENGTH = 249
"""Kafka's limit: the name, a partition number and a suffix have to fit a file name."""
METADATA_TOPIC = "__cluster_metadata"
"""Kafka keeps the cluster's metadata in a log of this name; no topic may be called so."""
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that brokers keep their own state in."""

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Apply Kafka's rules for topic names.

    Raises:
        InvalidTopic: naming the rule that is broken.
    """
    if not name or name in (".", ".."):
        raise InvalidTopic(f"{name!r} is not a topic name")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopic(f"a topic name of {len(name)} characters is longer than {MAX_NAME_LENGTH}")
    if not _LEGAL_NAME.fullmatch(name):
        raise InvalidTopic(f"topic name {name!r} has a character other than a-z, A-Z, 0-9, '.', '_' and '-'")


def metric_name(name: str) -> str:
    """Return the name of a topic in Kafka's metrics, which no two topics may have in common."""
    return name.replace(".", "_")

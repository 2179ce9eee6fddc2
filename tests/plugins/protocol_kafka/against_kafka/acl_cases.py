"""Access control entries and filters: usual ones, odd ones, and those that stand for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidelog.kernel.metadata.acls import ALLOW, ANY, DENY, LITERAL, MATCH, PREFIXED, AclEntry, AclFilter
from tidelog.kernel.seams.requests import AclOperation as Op
from tidelog.kernel.seams.requests import ResourceType

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TXN, TOKEN, USER = ResourceType.TRANSACTIONAL_ID, ResourceType.DELEGATION_TOKEN, ResourceType.USER
NOTHING, UNKNOWN = 0, 99
"""Codes that stand for nothing: the one of Kafka's UNKNOWN, and one that no version has."""

ENTRIES: Final[Sequence[AclEntry]] = (
    AclEntry(TOPIC, "orders", LITERAL, "User:alice", "*", Op.READ, ALLOW),
    AclEntry(TOPIC, "ord", PREFIXED, "User:alice", "*", Op.READ, ALLOW),
    AclEntry(TOPIC, "*", LITERAL, "User:bob", "192.0.2.1", Op.WRITE, DENY),
    AclEntry(GROUP, "g", LITERAL, "User:ünï,CN=x", "*", Op.ALL, ALLOW),
    AclEntry(CLUSTER, "kafka-cluster", LITERAL, "User:*", "*", Op.IDEMPOTENT_WRITE, ALLOW),
    AclEntry(TXN, "t", PREFIXED, "User:alice", "*", Op.DESCRIBE, ALLOW),
)
_USUAL = ENTRIES[0]._replace(resource_name="odd")
ODD_ENTRIES: Final[Sequence[AclEntry]] = (
    ENTRIES[0],
    *(_USUAL._replace(resource_name=name) for name in ("", "a/b", "x" * 300)),
    *(_USUAL._replace(principal=name) for name in ("alice", "User:", "", "Group:g")),
    *(_USUAL._replace(host=host) for host in ("", "::ffff:192.0.2.1", "no address")),
    *(_USUAL._replace(pattern_type=code) for code in (NOTHING, ANY, MATCH, UNKNOWN)),
    *(_USUAL._replace(resource_type=code) for code in (NOTHING, ANY, UNKNOWN)),
    *(_USUAL._replace(operation=code) for code in (NOTHING, ANY, UNKNOWN, Op.ALTER_CONFIGS)),
    *(_USUAL._replace(permission_type=code) for code in (NOTHING, ANY, UNKNOWN)),
    AclEntry(GROUP, "g", LITERAL, "User:a", "*", Op.ALTER_CONFIGS, ALLOW),
    AclEntry(CLUSTER, "other", LITERAL, "User:a", "*", Op.ALTER, ALLOW),
    AclEntry(CLUSTER, "", LITERAL, "User:a", "*", Op.ALTER, ALLOW),
    AclEntry(CLUSTER, "kafka-cluster", PREFIXED, "User:a", "*", Op.ALTER, ALLOW),
    AclEntry(USER, "User:a", LITERAL, "User:a", "*", Op.CREATE_TOKENS, ALLOW),
    AclEntry(TOKEN, "token", LITERAL, "User:a", "*", Op.DESCRIBE, ALLOW),
    # More than one field is wrong.
    _USUAL._replace(host="", principal="alice"),
    _USUAL._replace(resource_name="", operation=UNKNOWN),
    _USUAL._replace(resource_type=UNKNOWN, host=""),
    _USUAL._replace(permission_type=UNKNOWN, principal="", operation=UNKNOWN),
)

EVERY: Final = AclFilter(ANY, None, ANY, None, None, ANY, ANY)
_NAMED = EVERY._replace(resource_type=TOPIC, resource_name="orders")
FILTERS: Final[Sequence[AclFilter]] = (
    EVERY,
    *(EVERY._replace(resource_type=code) for code in (TOPIC, CLUSTER, NOTHING, UNKNOWN)),
    *(_NAMED._replace(pattern_type=code) for code in (ANY, MATCH, LITERAL, PREFIXED, NOTHING, UNKNOWN)),
    *(
        _NAMED._replace(resource_name=name, pattern_type=MATCH)
        for name in (None, "", "*", "ORDERS", "order", "zzz")
    ),
    _NAMED._replace(resource_name="ord", pattern_type=PREFIXED),
    _NAMED._replace(resource_name="*", pattern_type=LITERAL),
    EVERY._replace(resource_name="t", pattern_type=MATCH),
    *(EVERY._replace(principal=name) for name in ("User:alice", "User:*", "alice", "")),
    *(EVERY._replace(host=host) for host in ("*", "192.0.2.1", "192.0.2.2", "")),
    *(EVERY._replace(operation=code) for code in (Op.ALL, Op.READ, NOTHING, UNKNOWN)),
    *(EVERY._replace(permission_type=code) for code in (ALLOW, DENY, NOTHING, UNKNOWN)),
)


def creation(entry: AclEntry) -> dict[str, Any]:
    """An entry as CreateAcls has it."""
    values = entry._asdict()
    return {"resource_pattern_type": values.pop("pattern_type"), **values}


def filter_values(wanted: AclFilter) -> dict[str, Any]:
    """A filter as DescribeAcls and DeleteAcls have it."""
    values = wanted._asdict()
    whole = {"operation", "permission_type"}
    return {name if name in whole else f"{name}_filter": value for name, value in values.items()}

"""Access control entries: which are accepted, and which a filter removes.

Source: `AclControlManager` and `AclApis` of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import uuid4

from tidelog.kernel.errors import BrokerError, InvalidRequest
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.metadata.acls import (
    ALLOW,
    ANY,
    CLUSTER_NAME,
    DENY,
    LITERAL,
    PREFIXED,
    AclEntry,
    AclFilter,
)
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.requests import AclOperation, ResourceType

MAX_DELETED: Final = 10_000
"""Limit of the entries that one request deletes, as in Apache Kafka."""
_RESOURCE_TYPES: Final = frozenset(map(int, ResourceType))
_OPERATIONS: Final = frozenset(map(int, AclOperation))
_PERMISSIONS: Final = frozenset({DENY, ALLOW})
_PATTERNS: Final = frozenset({LITERAL, PREFIXED})


async def decide_new_acls(
    image: MetadataImage, entries: Sequence[AclEntry]
) -> tuple[MetadataDelta, Sequence[BrokerError | None]]:
    """Return the change that adds entries which are not there yet, and why others are refused."""
    results: list[BrokerError | None] = []
    known = set(image.acls.values())
    added: dict[bytes, AclEntry] = {}
    pace = Pace()
    for entry in entries:
        try:
            _check(entry)
        except InvalidRequest as error:
            results.append(error)
        else:
            results.append(None)
            if entry not in known:
                known.add(entry)
                added[uuid4().bytes] = entry
        await pace.turn()
    return MetadataDelta(acls=added), results


def _check(entry: AclEntry) -> None:
    if entry.resource_type == ResourceType.CLUSTER and entry.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not entry.resource_name:
        raise InvalidRequest("Invalid empty resource name")
    for title, value, allowed in (
        ("resourceType", entry.resource_type, _RESOURCE_TYPES),
        ("patternType", entry.pattern_type, _PATTERNS),
        ("operation", entry.operation, _OPERATIONS),
        ("permissionType", entry.permission_type, _PERMISSIONS),
    ):
        if value not in allowed:
            raise InvalidRequest(f"Invalid {title} {'ANY' if value == ANY else 'UNKNOWN'}")
    kind, colon, _ = entry.principal.partition(":")
    if not colon:
        raise InvalidRequest(
            f"Could not parse principal from `{entry.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    if not kind:
        # Apache Kafka stores it, and none of its brokers authorizes a request after that.
        raise InvalidRequest(f"{entry.principal!r} is no principal such as User:alice")
    if not entry.host:
        raise InvalidRequest("Host pattern cannot be null or empty")


async def decide_deleted_acls(
    image: MetadataImage, filters: Sequence[AclFilter]
) -> tuple[MetadataDelta, Sequence[Sequence[AclEntry] | BrokerError]]:
    """Return the change that deletes what filters match, and the entries of each, or why it is refused."""
    results: list[Sequence[AclEntry] | BrokerError] = []
    deleted: dict[bytes, None] = {}
    pace = Pace()
    for wanted in filters:
        try:
            if not wanted.has_known_pattern:
                raise InvalidRequest("Unknown patternFilter.")
            if not wanted.has_known_entry:
                raise InvalidRequest("Unknown entryFilter.")
            matched = await _matched(image, wanted, pace)
            if len(deleted.keys() | matched.keys()) > MAX_DELETED:
                raise InvalidRequest(f"one request deletes at most {MAX_DELETED} entries")
        except BrokerError as error:
            results.append(error)
        else:
            deleted |= dict.fromkeys(matched)
            results.append([*matched.values()])
    return MetadataDelta(acls=deleted), results


async def _matched(image: MetadataImage, wanted: AclFilter, pace: Pace) -> Mapping[bytes, AclEntry]:
    matched: dict[bytes, AclEntry] = {}
    for entry_id, entry in image.acls.items():
        if wanted.matches(entry):
            matched[entry_id] = entry
        await pace.turn()
    return matched

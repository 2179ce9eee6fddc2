"""Entries of access control: whom what is allowed or denied (KIP-11, KIP-290)."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final, NamedTuple

LITERAL: Final = 3
PREFIXED: Final = 4
DENY: Final = 2
ALLOW: Final = 3
ANY_NAME: Final = "*"
"""Name of a literal pattern that is about every resource of its type."""
ANY_USER: Final = "User:*"
ANY_HOST: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"
"""Name of the one resource of its type that is the cluster."""


class AclEntry(NamedTuple):
    """One principal, one operation, and the resources that it is about; numbers are Kafka's codes.

    `principal` is `Type:name`, `host` is an address or `*`. `pattern_type` says whether `resource_name` is
    literal (3) or a prefix (4), `permission_type` whether it denies (2) or allows (3).
    """

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


ANY: Final = 1
"""Code of a resource type, operation, permission or pattern type that a filter takes as any."""
MATCH: Final = 2
"""Code of a filter's pattern type for the patterns that are about a name."""


_RESOURCE_TYPES: Final = range(ANY, 8)
_PATTERN_TYPES: Final = range(ANY, 5)
_OPERATIONS: Final = range(ANY, 16)


class AclFilter(NamedTuple):
    """Which entries are meant: the fields of `AclEntry`, with None, `ANY` or `MATCH` where several are."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    @property
    def has_known_pattern(self) -> bool:
        """Whether its codes about resources stand for something."""
        return self.resource_type in _RESOURCE_TYPES and self.pattern_type in _PATTERN_TYPES

    @property
    def has_known_entry(self) -> bool:
        """Whether its codes about what is allowed or denied stand for something."""
        return self.operation in _OPERATIONS and self.permission_type in (ANY, DENY, ALLOW)

    def matches(self, entry: AclEntry) -> bool:
        """Return whether an entry is meant."""
        return (
            self.resource_type in (ANY, entry.resource_type)
            and self._names(entry)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (ANY, entry.operation)
            and self.permission_type in (ANY, entry.permission_type)
        )

    def _names(self, entry: AclEntry) -> bool:
        if self.pattern_type not in (ANY, MATCH, entry.pattern_type):
            return False
        name, pattern = self.resource_name, entry.resource_name
        if name is None or name == pattern:
            return True
        if self.pattern_type != MATCH:
            return False
        return pattern == ANY_NAME if entry.pattern_type == LITERAL else name.startswith(pattern)


@lru_cache(maxsize=10_000)
def canonical_host(host: str) -> str:
    """Return an address in the form that all spellings of it have in common; another text as it is.

    Apache Kafka writes `0:0:0:0:0:0:0:1` for `::1`, and an IPv4 client of an IPv6 socket is an IPv4 one.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)

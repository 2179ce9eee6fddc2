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

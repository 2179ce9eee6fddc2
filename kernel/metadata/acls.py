"""Entries of access control: whom what is allowed or denied (KIP-11, KIP-290)."""

from __future__ import annotations

from typing import NamedTuple


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

"""Configuration keys of the authorizer `standard`."""

from __future__ import annotations

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.types import ValueType, boolean


def _principals() -> ValueType[frozenset[str]]:
    return ValueType("string", "principals such as User:admin, separated by ;", _parse, _format)


def _parse(text: str) -> frozenset[str]:
    principals = frozenset(each.strip() for each in text.split(";") if each.strip())
    for each in sorted(principals):
        kind, colon, _ = each.partition(":")
        if not (kind and colon):
            raise ValueError(f"has {each!r}, which is no principal such as User:admin")
    return principals


def _format(principals: frozenset[str]) -> str:
    return ";".join(sorted(principals))


SUPER_USERS = ConfigKey(
    name="super.users",
    type=_principals(),
    default=frozenset[str](),
    documentation="Principals that may do everything whatever the access control entries say, separated by "
    "`;`, as in `User:admin;User:CN=broker,O=tide`.",
)
ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND = ConfigKey(
    name="allow.everyone.if.no.acl.found",
    type=boolean(),
    default=False,
    documentation="Whether everyone may use a resource that no access control entry is about.",
)

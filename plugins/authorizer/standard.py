"""Decisions by access control entries, and the cache of those that were made.

Source: Apache Kafka's `StandardAuthorizerData`, and `Authorizer.authorizeByResourceType` (KIP-679).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Final, TypeAlias

from tidelog.kernel.metadata import ImageChange, MetadataImage
from tidelog.kernel.metadata.acls import (
    ALLOW,
    ANY_HOST,
    ANY_NAME,
    ANY_USER,
    DENY,
    LITERAL,
    AclEntry,
    canonical_host,
)
from tidelog.kernel.seams.authorizer import Authorizer, Subject
from tidelog.kernel.seams.requests import AclOperation, ResourceType

MAX_DECISIONS: Final = 100_000
"""Decisions that are kept; beyond that all are made again, so that names of clients fill no memory."""

_SUPER_USER: Final = "SuperUser"
_IMPLYING: Final[Mapping[int, frozenset[int]]] = {
    AclOperation.DESCRIBE: frozenset(
        {
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
        }
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}),
}
"""What an entry may allow so that it allows an operation, too. A denied one implies nothing."""

_Entries: TypeAlias = dict[bytes, AclEntry]
_Decision: TypeAlias = tuple[bool, str]


class StandardAuthorizer(Authorizer):
    """Denies what any matching entry denies, then allows what one allows, then goes by what there is else."""

    has_acls = True

    def __init__(self, super_users: Set[str], *, allow_without_entries: bool) -> None:
        """`super_users` are `Type:name`; `allow_without_entries`: of resources that no entry is about."""
        self._super_users = super_users
        self._without_entries = _by_default(allow_without_entries)
        self._entries: _Entries = {}
        self._patterns: dict[int, _Patterns] = {}
        self._decisions: dict[tuple[Subject, int, int, str], bool] = {}

    def load(self, image: MetadataImage) -> None:
        """Take over the entries of an image."""
        self._entries, self._patterns = {}, {}
        self._change(dict(image.acls))

    async def follow(self, change: ImageChange) -> None:
        """Take over entries that were added and removed."""
        if change.delta.acls:
            self._change(change.delta.acls)

    def _change(self, changes: Mapping[bytes, AclEntry | None]) -> None:
        for entry_id, entry in changes.items():
            before = self._entries.pop(entry_id, None)
            if before is not None:
                self._patterns[before.resource_type].remove(entry_id, before)
            if entry is not None:
                self._entries[entry_id] = entry
                self._patterns.setdefault(entry.resource_type, _Patterns()).add(entry_id, entry)
        self._decisions.clear()
        self.version = object()

    def allows(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return the decision, which is made once until an entry changes."""
        asked = subject, operation, resource_type, name
        decided = self._decisions.get(asked)
        if decided is None:
            decided, _ = self._decide(subject, operation, resource_type, name)
            self._keep(asked, decided=decided)
        return decided

    def explain(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> str:
        """Return the rule by which it was decided, in the form that Apache Kafka logs."""
        _, rule = self._decide(subject, operation, resource_type, name)
        return rule

    def allows_any(self, subject: Subject, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether there is a name that the entries allow."""
        # A name that no resource has: it cannot be empty.
        asked = subject, operation, resource_type, ""
        decided = self._decisions.get(asked)
        if decided is None:
            decided = self._decide_any(subject, operation, resource_type)
            self._keep(asked, decided=decided)
        return decided

    def _keep(self, asked: tuple[Subject, int, int, str], *, decided: bool) -> None:
        if len(self._decisions) >= MAX_DECISIONS:
            self._decisions.clear()
        self._decisions[asked] = decided

    def _decide(self, subject: Subject, operation: int, resource_type: int, name: str) -> _Decision:
        principal, host = str(subject.principal), canonical_host(subject.host)
        if principal in self._super_users:
            return True, _SUPER_USER
        patterns, allowing, has_entries = self._patterns.get(resource_type), None, False
        for entry in () if patterns is None else patterns.matching(name):
            has_entries = True
            if _applies(entry, principal, host) and _is_about(entry, operation):
                if entry.permission_type == DENY:
                    return False, _matching(entry)
                if entry.permission_type == ALLOW:
                    allowing = entry
        if allowing is not None:
            return True, _matching(allowing)
        return self._without_entries if not has_entries else _by_default(allowed=False)

    def _decide_any(self, subject: Subject, operation: AclOperation, resource_type: ResourceType) -> bool:
        # Of any name: super users, and where no entry is about a resource of the type.
        if self.allows(subject, operation, resource_type, "hardcode"):
            return True
        principal, host = str(subject.principal), canonical_host(subject.host)
        allowed: list[AclEntry] = []
        denied = set[tuple[str, bool]]()
        patterns = self._patterns.get(resource_type)
        for entry in () if patterns is None else patterns.all():
            # As in Apache Kafka, no operation implies another one here.
            if _applies(entry, principal, host) and entry.operation in (operation, AclOperation.ALL):
                if entry.permission_type == DENY:
                    denied.add((entry.resource_name, entry.pattern_type == LITERAL))
                elif entry.permission_type == ALLOW:
                    allowed.append(entry)
        if (ANY_NAME, True) in denied:
            return False
        return any(_is_left(entry, denied) for entry in allowed)


class _Patterns:
    """The entries of one type of resource: those of a name, of a prefix, and of any name.

    What matches a name takes a lookup for each length that a prefix has, however many entries there are.
    """

    def __init__(self) -> None:
        self._literal: dict[str, _Entries] = {}
        self._prefixed: dict[str, _Entries] = {}
        self._lengths: dict[int, int] = {}

    def add(self, entry_id: bytes, entry: AclEntry) -> None:
        if entry.pattern_type == LITERAL:
            self._literal.setdefault(entry.resource_name, {})[entry_id] = entry
            return
        entries = self._prefixed.setdefault(entry.resource_name, {})
        if not entries:
            length = len(entry.resource_name)
            self._lengths[length] = self._lengths.get(length, 0) + 1
        entries[entry_id] = entry

    def remove(self, entry_id: bytes, entry: AclEntry) -> None:
        name, is_literal = entry.resource_name, entry.pattern_type == LITERAL
        named = self._literal if is_literal else self._prefixed
        del named[name][entry_id]
        if not named[name]:
            del named[name]
            if not is_literal:
                self._lengths[len(name)] -= 1
                if not self._lengths[len(name)]:
                    del self._lengths[len(name)]

    def all(self) -> Iterator[AclEntry]:
        for named in (self._literal, self._prefixed):
            for entries in named.values():
                yield from entries.values()

    def matching(self, name: str) -> Iterator[AclEntry]:
        """Iterate over the entries that are about a resource of this name."""
        yield from self._literal.get(name, {}).values()
        for length in self._lengths:
            # A slice of a shorter name would be that name itself.
            if length <= len(name):
                yield from self._prefixed.get(name[:length], {}).values()
        if name != ANY_NAME:
            yield from self._literal.get(ANY_NAME, {}).values()


def _applies(entry: AclEntry, principal: str, host: str) -> bool:
    return entry.principal in (principal, ANY_USER) and (
        entry.host == ANY_HOST or canonical_host(entry.host) == host
    )


def _is_about(entry: AclEntry, operation: int) -> bool:
    if entry.operation in (operation, AclOperation.ALL):
        return True
    return entry.permission_type == ALLOW and entry.operation in _IMPLYING.get(operation, ())


def _is_left(entry: AclEntry, denied: Set[tuple[str, bool]]) -> bool:
    """Return whether something is left of what an entry allows."""
    name = entry.resource_name
    if entry.pattern_type == LITERAL and (name == ANY_NAME or (name, True) in denied):
        return name == ANY_NAME
    return not any((name[:length], False) in denied for length in range(1, len(name) + 1))


def _by_default(allowed: bool) -> _Decision:
    return allowed, "DefaultAllow" if allowed else "DefaultDeny"


def _matching(entry: AclEntry) -> str:
    return f"MatchingAcl(acl={entry})"

"""Conformance of authorizers: a suite that everything passes that `authorizer.class.name` can name.

    class TestMyAuthorizer(AuthorizerConformance):
        def authorizer(self, rules): ...
        def broken(self): ...

Each test says who may do what as rules, which `authorizer` writes in the form that the authorizer reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from tidelog.kernel.errors import ConfigError
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.metadata.acls import (
    ALLOW,
    ANY_HOST,
    ANY_NAME,
    ANY_USER,
    DENY,
    LITERAL,
    PREFIXED,
    AclEntry,
)
from tidelog.kernel.request import Authorization
from tidelog.kernel.seams.authorizer import Authorizer, Subject, Undecided
from tidelog.kernel.seams.requests import ANONYMOUS, AclOperation, Principal, ResourceType
from tidelog.kernel.testing.loop_turns import holds_the_loop

ALICE, BOB = (Principal("User", name) for name in ("alice", "bob"))
HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"
READ, WRITE, CREATE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE
DELETE, ALTER, DESCRIBE = AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ODD_NAMES = ("", "*", "?", "[a-z]*", "orders*", "a\nb", "ordérs", "a" * 249, "\u202eorders", "(a+)+$" * 20)


class AccessRule(NamedTuple):
    """What a principal may do, or must not; None means any principal, operation, host or name.

    `is_prefix`: `name` is how names begin.
    """

    name: str | None
    is_prefix: bool = False
    operation: AclOperation | None = READ
    principal: Principal | None = ALICE
    host: str | None = None
    allowed: bool = True
    resource_type: ResourceType = TOPIC

    def entry(self) -> AclEntry:
        """Return the rule as an access control entry."""
        return AclEntry(
            self.resource_type,
            ANY_NAME if self.name is None else self.name,
            PREFIXED if self.is_prefix else LITERAL,
            ANY_USER if self.principal is None else str(self.principal),
            self.host or ANY_HOST,
            AclOperation.ALL if self.operation is None else self.operation,
            ALLOW if self.allowed else DENY,
        )


def image_of_rules(rules: Sequence[AccessRule]) -> MetadataImage:
    """Return an image with an entry for each rule, for authorizers that go by these."""
    return image_of_entries([rule.entry() for rule in rules])


def image_of_unknown_entry() -> MetadataImage:
    """Return an image with an entry whose pattern, operation and permission no authorizer knows."""
    return image_of_entries([AclEntry(TOPIC, "orders", 99, ANY_USER, ANY_HOST, 99, 99)])


def image_of_entries(entries: Sequence[AclEntry]) -> MetadataImage:
    """Return an image with these entries."""
    acls = {number.to_bytes(16): entry for number, entry in enumerate(entries)}
    return MetadataDelta(acls=acls).apply(MetadataImage())


class AuthorizerConformance(ABC):
    """All that a broker relies on."""

    @abstractmethod
    def authorizer(self, rules: Sequence[AccessRule]) -> Authorizer:
        """Return an authorizer for these rules, which may be asked."""

    @abstractmethod
    def broken(self) -> Authorizer:
        """Return an authorizer whose rules cannot be read, or raise ConfigError if it cannot be created."""

    async def allows(
        self,
        rules: Sequence[AccessRule] | Authorizer,
        name: str,
        operation: AclOperation = READ,
        *,
        principal: Principal = ALICE,
        host: str = HERE,
        resource_type: ResourceType = TOPIC,
    ) -> bool:
        """Return what a broker with an authorizer for these rules decides."""
        authorizer = self.authorizer(rules) if isinstance(rules, Sequence) else rules
        authorization = Authorization(authorizer)
        subject = Subject(principal, host, "PLAINTEXT")
        for _ in range(2):
            try:
                return authorization.allows(subject, operation, resource_type, name, "Conformance")
            except Undecided as undecided:
                await undecided.decided()
        raise AssertionError("it is undecided after its decision was awaited")

    async def test_without_a_rule_nothing_is_allowed(self) -> None:
        for name in ("orders", *ODD_NAMES):
            assert not await self.allows([], name)
        assert not await self.allows([], "orders", principal=ANONYMOUS)

    async def test_a_name_is_allowed_and_no_other_one(self) -> None:
        authorizer = self.authorizer([AccessRule("orders")])
        assert await self.allows(authorizer, "orders")
        for name in ("order", "orders1", "Orders", " orders", "orders ", "xorders", *ODD_NAMES):
            assert not await self.allows(authorizer, name)

    async def test_a_prefix_is_how_names_begin(self) -> None:
        authorizer = self.authorizer([AccessRule("orders-", is_prefix=True)])
        for name in ("orders-", "orders-1", "orders-" + "x" * 200):
            assert await self.allows(authorizer, name)
        for name in ("orders", "order", "xorders-1", "Orders-1", "or", *ODD_NAMES):
            assert not await self.allows(authorizer, name)

    async def test_any_name_is_allowed(self) -> None:
        authorizer = self.authorizer([AccessRule(None)])
        for name in ("orders", *ODD_NAMES):
            assert await self.allows(authorizer, name)

    async def test_a_name_is_no_pattern(self) -> None:
        assert not await self.allows([AccessRule("or.ers")], "orders")
        assert not await self.allows([AccessRule("orders?")], "orders")
        assert not await self.allows([AccessRule("[o]", is_prefix=True)], "orders")

    async def test_deny_counts_more_than_allow_however_they_are_ordered(self) -> None:
        allowed, denied = AccessRule(None), AccessRule("orders", allowed=False)
        for rules in ([allowed, denied], [denied, allowed]):
            authorizer = self.authorizer(rules)
            assert not await self.allows(authorizer, "orders")
            assert await self.allows(authorizer, "orders2")

    @pytest.mark.parametrize(
        "wide", [AccessRule(None, allowed=False), AccessRule("ord", is_prefix=True, allowed=False)]
    )
    async def test_a_wide_deny_counts_more_than_a_narrow_allow(self, wide: AccessRule) -> None:
        assert not await self.allows([AccessRule("orders"), wide], "orders")
        assert not await self.allows([wide, AccessRule("orders")], "orders")

    async def test_another_principal_is_not_allowed(self) -> None:
        authorizer = self.authorizer([AccessRule("orders")])
        others = [
            BOB,
            ANONYMOUS,
            Principal("Group", "alice"),
            Principal("User", "Alice"),
            Principal("User", "*"),
        ]
        for principal in [*others, Principal("User", "alice "), Principal("User", "")]:
            assert not await self.allows(authorizer, "orders", principal=principal)

    async def test_any_principal_is_allowed(self) -> None:
        authorizer = self.authorizer([AccessRule("orders", principal=None)])
        for principal in (ALICE, BOB, ANONYMOUS):
            assert await self.allows(authorizer, "orders", principal=principal)

    async def test_another_host_is_not_allowed(self) -> None:
        authorizer = self.authorizer([AccessRule("orders", host=HERE)])
        assert await self.allows(authorizer, "orders", host=HERE)
        for host in (ELSEWHERE, "192.0.2.11", "", "::1"):
            assert not await self.allows(authorizer, "orders", host=host)
        assert await self.allows(authorizer, "orders", host=HERE)

    async def test_deny_is_for_its_host_and_its_principal(self) -> None:
        anyone = AccessRule("orders", principal=None)
        authorizer = self.authorizer([anyone, AccessRule("orders", host=ELSEWHERE, allowed=False)])
        assert not await self.allows(authorizer, "orders", host=ELSEWHERE)
        assert await self.allows(authorizer, "orders", host=HERE)
        assert await self.allows(authorizer, "orders", host=ELSEWHERE, principal=BOB)

    async def test_another_operation_and_another_type_are_not_allowed(self) -> None:
        authorizer = self.authorizer([AccessRule("orders")])
        for operation in (WRITE, CREATE, DELETE, ALTER):
            assert not await self.allows(authorizer, "orders", operation)
        assert not await self.allows(authorizer, "orders", resource_type=GROUP)

    async def test_any_operation_is_allowed(self) -> None:
        authorizer = self.authorizer([AccessRule("orders", operation=None)])
        for operation in (READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE):
            assert await self.allows(authorizer, "orders", operation)

    @pytest.mark.parametrize("operation", [READ, WRITE, DELETE, ALTER])
    async def test_what_is_allowed_implies_describe_and_what_is_denied_does_not(
        self, operation: AclOperation
    ) -> None:
        assert await self.allows([AccessRule("orders", operation=operation)], "orders", DESCRIBE)
        denied = AccessRule("orders", operation=operation, allowed=False)
        assert await self.allows([AccessRule("orders", operation=DESCRIBE), denied], "orders", DESCRIBE)
        assert not await self.allows([AccessRule("orders", operation=DESCRIBE)], "orders", operation)

    async def test_allows_any_finds_a_name_that_is_allowed(self) -> None:
        subject = Subject(ALICE, HERE, "PLAINTEXT")
        for rules, expected in (
            ([], False),
            ([AccessRule("orders", operation=WRITE)], True),
            ([AccessRule("ord", is_prefix=True, operation=WRITE)], True),
            ([AccessRule(None, operation=WRITE)], True),
            ([AccessRule("orders", operation=WRITE, principal=BOB)], False),
            (
                [AccessRule("orders", operation=WRITE), AccessRule(None, operation=WRITE, allowed=False)],
                False,
            ),
        ):
            authorizer = self.authorizer(rules)
            # One that does not know better denies, since it would otherwise allow too much.
            assert authorizer.allows_any(subject, WRITE, TOPIC) in (expected, False)

    async def test_no_question_blocks_the_event_loop(self) -> None:
        authorizer = self.authorizer([AccessRule("orders")])
        assert not await holds_the_loop(lambda: self.allows(authorizer, "orders"))

    async def test_one_that_cannot_read_its_rules_allows_nothing(self) -> None:
        try:
            authorizer = self.broken()
            authorizer.load(MetadataImage())
        except ConfigError:
            return
        for principal in (ALICE, BOB, ANONYMOUS):
            assert not await self.allows(authorizer, "orders", principal=principal)

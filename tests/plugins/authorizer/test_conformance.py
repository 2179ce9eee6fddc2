"""The authorizer `standard` keeps the contract, and the suite finds those that do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from tidelog.kernel.seams.authorizer import Authorizer, Subject
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.kernel.testing import loop_turns
from tidelog.kernel.testing.authorizer import AccessRule, AuthorizerConformance, image_of_rules
from tidelog.plugins.authorizer.conformance import StandardAuthorizerConformance, standard_with
from tidelog.plugins.authorizer.standard import StandardAuthorizer


def standard(rules: Sequence[AccessRule]) -> StandardAuthorizer:
    """The authorizer under test with these rules."""
    return standard_with(image_of_rules(rules))


class TestStandard(StandardAuthorizerConformance): ...


class Wrong(Authorizer):
    """An authorizer that goes by rules, and does one thing wrong."""

    def __init__(self, rules: Sequence[AccessRule]) -> None:
        self.rules = standard(rules)
        self.given = rules

    def allows(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        return self.rules.allows(subject, operation, resource_type, name)


class AllowsOnError(Wrong):
    pass


class IgnoresDeny(Wrong):
    def __init__(self, rules: Sequence[AccessRule]) -> None:
        super().__init__([rule for rule in rules if rule.allowed])


class FirstRuleCounts(Wrong):
    def allows(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        for rule in self.given:
            if standard([rule._replace(allowed=True)]).allows(subject, operation, resource_type, name):
                return rule.allowed
        return False


class PrefixWithoutBoundary(Wrong):
    """Of a name that is meant as a whole."""

    def __init__(self, rules: Sequence[AccessRule]) -> None:
        super().__init__([rule._replace(is_prefix=rule.name is not None) for rule in rules])


class PrefixAnywhere(Wrong):
    def allows(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        return any(
            super(PrefixAnywhere, self).allows(subject, operation, resource_type, each)
            for each in tails(name)
        )


class ForgetsHost(Wrong):
    def __init__(self, rules: Sequence[AccessRule]) -> None:
        super().__init__([rule._replace(host=None) for rule in rules])


class RemembersWithoutHost(Wrong):
    def __init__(self, rules: Sequence[AccessRule]) -> None:
        super().__init__(rules)
        self.seen: dict[object, bool] = {}

    def allows(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        key = subject.principal, operation, resource_type, name
        return self.seen.setdefault(key, super().allows(subject, operation, resource_type, name))


class ForgetsTheTypeOfPrincipals(Wrong):
    def allows(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        user = subject._replace(principal=subject.principal._replace(type="User"))
        return super().allows(user, operation, resource_type, name)


class DeniedReadHidesTheTopic(Wrong):
    def allows(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        denied = standard([rule._replace(allowed=True) for rule in self.given if not rule.allowed])
        return super().allows(subject, operation, resource_type, name) and not denied.allows(
            subject, operation, resource_type, name
        )


class AllowsWithoutRules(Wrong):
    def allows(
        self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        return not self.given or super().allows(subject, operation, resource_type, name)


def tails(name: str) -> Iterator[str]:
    """The name, and what is left of it after any character."""
    return (name[start:] for start in range(len(name) + 1))


WRONG = [kind for kind in Wrong.__subclasses__() if kind is not AllowsOnError]


def suite_of(
    create: Callable[[Sequence[AccessRule]], Authorizer], broken: Authorizer
) -> AuthorizerConformance:
    class Suite(AuthorizerConformance):
        def authorizer(self, rules: Sequence[AccessRule]) -> Authorizer:
            return create(rules)

        def broken(self) -> Authorizer:
            return broken

    return Suite()


async def failures(suite: AuthorizerConformance) -> list[str]:
    """The tests of the suite that fail."""
    failed: list[str] = []
    for name in dir(suite):
        if name.startswith("test_"):
            marks = getattr(getattr(suite, name), "pytestmark", [])
            for arguments in ([value] for value in marks[0].args[1]) if marks else ([],):
                try:
                    await getattr(suite, name)(*arguments)
                except AssertionError:
                    failed.append(name)
    return failed


@pytest.mark.parametrize("kind", WRONG)
async def test_the_suite_finds_a_wrong_authorizer(kind: Callable[[Sequence[AccessRule]], Authorizer]) -> None:
    assert await failures(suite_of(kind, standard([])))


async def test_the_suite_finds_one_that_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blocking(Wrong):
        def allows(
            self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
        ) -> bool:
            time.sleep(0.02)
            return super().allows(subject, operation, resource_type, name)

    monkeypatch.setattr(loop_turns, "MOST_BLOCKING_SECONDS", 0.01)
    with pytest.raises(AssertionError):
        await suite_of(Blocking, standard([])).test_no_question_blocks_the_event_loop()


async def test_the_suite_finds_one_that_allows_on_an_error() -> None:
    class Allowing(Wrong):
        def allows(
            self, subject: Subject, operation: AclOperation, resource_type: ResourceType, name: str
        ) -> bool:
            return True

    assert await failures(suite_of(standard, Allowing([]))) == [
        "test_one_that_cannot_read_its_rules_allows_nothing"
    ]


async def test_the_suite_finds_nothing_wrong_with_the_right_one() -> None:
    assert await failures(suite_of(standard, standard([]))) == []

"""What the authorizer `standard` has beyond the contract: super users, defaults, changes of entries."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.plugins.authorizer.test_conformance import standard
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.metadata import ImageChange, MetadataDelta
from tidelog.kernel.metadata.acls import ALLOW, DENY, LITERAL, AclEntry, canonical_host
from tidelog.kernel.plugins import configure
from tidelog.kernel.seams.authorizer import Subject
from tidelog.kernel.seams.requests import AclOperation, Principal, ResourceType
from tidelog.kernel.testing.authorizer import AccessRule, image_of_entries
from tidelog.kernel.testing.broker import new_broker
from tidelog.plugins.authorizer import keys
from tidelog.plugins.authorizer import standard as module
from tidelog.plugins.authorizer.standard import StandardAuthorizer

ALICE = Subject(Principal("User", "alice"), "192.0.2.1", "PLAINTEXT")
READ, WRITE, TOPIC = AclOperation.READ, AclOperation.WRITE, ResourceType.TOPIC


@pytest.mark.parametrize("name", ["standard", " org.apache.kafka.metadata.authorizer.StandardAuthorizer "])
def test_authorizer_class_name_may_be_that_of_kafkas_class(name: str) -> None:
    settings = {"authorizer.class.name": name, "super.users": "User:bob; User:alice ;"}
    authorization = new_broker(settings).authorization
    assert authorization is not None
    assert authorization.authorizer.has_acls
    assert authorization.allows(ALICE, READ, TOPIC, "t", "Fetch")
    assert not authorization.allows(
        ALICE._replace(principal=Principal("User", "carl")), READ, TOPIC, "t", "Fetch"
    )


def test_without_authorizer_class_name_there_is_no_authorizer() -> None:
    assert new_broker().authorization is None


def test_super_users_have_to_be_principals() -> None:
    with pytest.raises(ConfigError, match="has 'alice', which is no principal"):
        configure({"super.users": "User:bob;alice"})
    config, _ = configure({"super.users": "User:CN=a,O=b;User:"})
    assert config[keys.SUPER_USERS] == {"User:CN=a,O=b", "User:"}


def test_a_super_user_may_do_what_an_entry_denies() -> None:
    authorizer = StandardAuthorizer(frozenset({"User:alice"}), allow_without_entries=False)
    authorizer.load(image_of_entries([AccessRule(None, operation=None, allowed=False).entry()]))
    assert authorizer.allows(ALICE, READ, TOPIC, "t")
    assert authorizer.allows_any(ALICE, WRITE, TOPIC)
    assert authorizer.explain(ALICE, READ, TOPIC, "t") == "SuperUser"


def test_allow_everyone_is_only_for_resources_without_any_entry() -> None:
    authorizer = StandardAuthorizer(frozenset(), allow_without_entries=True)
    authorizer.load(
        image_of_entries([AccessRule("orders", operation=WRITE, principal=Principal("User", "bob")).entry()])
    )
    assert authorizer.allows(ALICE, READ, TOPIC, "other")
    assert not authorizer.allows(ALICE, READ, TOPIC, "orders")
    assert authorizer.explain(ALICE, READ, TOPIC, "other") == "DefaultAllow"
    assert authorizer.explain(ALICE, READ, TOPIC, "orders") == "DefaultDeny"


async def test_entries_are_followed_although_decisions_are_cached() -> None:
    authorizer = standard([])
    image = image_of_entries([])
    allowing, denying = (
        AclEntry(2, "t", LITERAL, "User:alice", "*", READ, ALLOW),
        AccessRule("t", allowed=False).entry(),
    )
    for acls, expected in (
        ({b"1": allowing}, True),
        ({b"2": denying}, False),
        ({b"2": None}, True),
        ({b"1": None}, False),
        ({b"3": allowing._replace(pattern_type=4, resource_name="")}, True),
        ({b"3": allowing._replace(pattern_type=4, resource_name="u")}, False),
    ):
        delta = MetadataDelta(acls=acls)
        await authorizer.follow(ImageChange(image, delta, delta.apply(image)))
        image = delta.apply(image)
        for _ in range(2):
            assert authorizer.allows(ALICE, READ, TOPIC, "t") is expected


def test_decisions_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DECISIONS", 10)
    authorizer = standard([AccessRule("t")])
    for number in range(100):
        assert not authorizer.allows(ALICE, READ, TOPIC, f"other-{number}")
        assert authorizer.allows(ALICE, READ, TOPIC, "t")
    assert len(vars(authorizer)["_decisions"]) <= 10


def slowly(entries: Sequence[AclEntry], subject: Subject, operation: int, name: str) -> bool:
    """The decision as Apache Kafka's documentation describes it, without an index."""
    implying = {8: (8, 3, 4, 6, 7), 10: (10, 11)}.get(operation, (operation,))
    about = [
        each
        for each in entries
        if each.resource_type == TOPIC
        and (
            name == each.resource_name or each.resource_name == "*"
            if each.pattern_type == LITERAL
            else name.startswith(each.resource_name)
        )
        and each.principal in ("User:*", str(subject.principal))
        and each.host in ("*", subject.host)
    ]
    denied = any(each.permission_type == DENY and each.operation in (2, operation) for each in about)
    allowed = any(each.permission_type == ALLOW and each.operation in (2, *implying) for each in about)
    return allowed and not denied


def test_decisions_are_those_of_the_rules_without_an_index() -> None:
    choose = random.Random(36)
    names = ["a", "ab", "abc", "b", "*", "a*", ""]
    for _ in range(300):
        entries = [
            AclEntry(
                choose.choice([2, 3]),
                choose.choice(names[:-1]),
                choose.choice([3, 4]),
                choose.choice(["User:alice", "User:bob", "User:*"]),
                choose.choice(["*", "192.0.2.1", "192.0.2.2"]),
                choose.choice([2, 3, 4, 6, 8, 10, 11]),
                choose.choice([2, 3, 3, 3]),
            )
            for _ in range(choose.randrange(8))
        ]
        authorizer = StandardAuthorizer(frozenset(), allow_without_entries=False)
        authorizer.load(image_of_entries(entries))
        for name in names:
            for operation in (READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS):
                assert authorizer.allows(ALICE, operation, TOPIC, name) is slowly(
                    entries, ALICE, operation, name
                )


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ([AccessRule("ab", operation=WRITE), AccessRule("ab", operation=WRITE, allowed=False)], False),
        (
            [
                AccessRule("ab", operation=WRITE),
                AccessRule("a", is_prefix=True, operation=WRITE, allowed=False),
            ],
            False,
        ),
        ([AccessRule("a", True, WRITE), AccessRule("a", operation=WRITE, allowed=False)], True),
        ([AccessRule("a", True, WRITE), AccessRule("ab", True, WRITE, allowed=False)], True),
        ([AccessRule(None, operation=WRITE), AccessRule("a", operation=WRITE, allowed=False)], True),
        ([AccessRule("a", operation=None)], True),
        ([AccessRule("a", operation=AclOperation.DESCRIBE)], False),
    ],
)
def test_allows_any_leaves_out_what_is_denied(rules: Sequence[AccessRule], *, allowed: bool) -> None:
    assert standard(rules).allows_any(ALICE, WRITE, TOPIC) is allowed


@pytest.mark.parametrize(
    ("host", "canonical"),
    [("0:0:0:0:0:0:0:1", "::1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("192.0.2.1", "192.0.2.1"), ("*", "*")],
)
def test_canonical_host(host: str, canonical: str) -> None:
    assert canonical_host(host) == canonical

"""Quotas, SCRAM credentials and ACLs: Apache Kafka and tidelog give the same answers, field by field.

Both keep what they are asked to keep, so each case has names of its own. Kafka lists entities, users and
keys in no order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from tidelog.plugins.protocol_kafka.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    OpData,
)
from tidelog.plugins.protocol_kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.plugins.protocol_kafka.messages.api import (
    ALTER_CLIENT_QUOTAS,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
    Api,
)
from tidelog.plugins.protocol_kafka.messages.create_acls import AclCreation, CreateAclsRequest
from tidelog.plugins.protocol_kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tidelog.plugins.protocol_kafka.messages.describe_acls import DescribeAclsRequest
from tidelog.plugins.protocol_kafka.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from tidelog.plugins.protocol_kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

from .asking import Asker, plain, same_answers

Entity = Sequence[tuple[str, str | None]]
Quotas = dict[str, float | None]
RATE = "producer_byte_rate"


def quotas(*entries: tuple[Entity, Quotas], validate_only: bool = False) -> AlterClientQuotasRequest:
    """Set quotas of entities, and remove those that are None."""
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasEntry(
                entity=[AlterClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[
                    OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in changes.items()
                ],
            )
            for entity, changes in entries
        ],
        validate_only=validate_only,
    )


def wanted(*components: tuple[str, int, str | None], strict: bool = False) -> DescribeClientQuotasRequest:
    """Describe the entities that match."""
    parts = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    return DescribeClientQuotasRequest(components=parts, strict=strict)


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    """Set a credential."""
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"p" * 32
    )


def credentials(
    *upsertions: ScramCredentialUpsertion, deletions: Sequence[tuple[str, int]] = ()
) -> AlterUserScramCredentialsRequest:
    """Set and delete credentials."""
    gone = [ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in deletions]
    return AlterUserScramCredentialsRequest(deletions=gone, upsertions=list(upsertions))


ALTERATIONS: list[tuple[Entity, Quotas]] = [
    ([("user", "q1")], {RATE: 1000.0, "consumer_byte_rate": 2000.0}),
    ([("user", "q1"), ("client-id", None)], {"request_percentage": 12.5}),
    ([("client-id", "c1"), ("user", None)], {RATE: 1.0000005}),
    ([("client-id", "c1")], {"controller_mutation_rate": 0.5}),
    ([("client-id", "c1")], {"connection_creation_rate": 3.0}),
    ([("ip", None)], {"connection_creation_rate": 1e6}),
    ([("ip", "127.0.0.2")], {"connection_creation_rate": 1e10}),
    ([("ip", "127.0.0.2")], {"connection_creation_rate": 1.5}),
    ([("ip", "127.0.0.2")], {RATE: 1.0}),
    ([("ip", "10.0.0.0/8")], {"connection_creation_rate": 1.0}),
    ([("ip", "::1")], {"connection_creation_rate": 1e6}),
    ([], {RATE: 1.0}),
    ([("user", "")], {RATE: 1.0}),
    ([("group", "g")], {RATE: 1.0}),
    ([("user", "q1"), ("ip", "::1")], {RATE: 1.0}),
    ([("user", "first"), ("user", "last")], {RATE: 1.0}),
    ([("user", "q2")], {RATE: 1.0, "unknown": 1.0}),
    ([("user", "q2")], {"unknown": None}),
    ([("user", "q2")], {"SCRAM-SHA-256": 1.0}),
    ([("user", "q2")], {RATE: 0.0}),
    ([("user", "q2")], {RATE: -1.0}),
    ([("user", "q2")], {RATE: 0.5}),
    ([("user", "q2")], {RATE: 2.0**63}),
    ([("user", "q3")], {RATE: math.inf}),
    ([("user", "q3")], {"request_percentage": math.inf}),
    ([("user", "q3")], {"request_percentage": math.nan}),
    ([("user", "q3")], {"request_percentage": 1e300}),
    ([("user", "q3")], {}),
]
QUOTA_SCRIPT: list[tuple[Api, Any]] = [
    *((ALTER_CLIENT_QUOTAS, quotas(alteration)) for alteration in ALTERATIONS),
    (ALTER_CLIENT_QUOTAS, quotas(([("user", "q4")], {RATE: 1.0}), validate_only=True)),
    *(
        (DESCRIBE_CLIENT_QUOTAS, wanted(*components, strict=strict))
        for strict in (False, True)
        for components in (
            [],
            [("user", 0, "q1")],
            [("user", 1, None)],
            [("user", 2, None)],
            [("user", 2, None), ("client-id", 2, None)],
            [("user", 0, "q1"), ("client-id", 1, None)],
            [("client-id", 0, "c1")],
            [("ip", 2, None)],
            [("ip", 1, None)],
            [("user", 0, None)],
            [("user", 1, "q1")],
            [("user", 2, "q1")],
            [("user", 3, "q1")],
            [("", 0, "q1")],
            [("group", 0, "q1")],
            [("user", 0, "q1"), ("user", 2, None)],
            [("user", 0, "q1"), ("ip", 2, None)],
        )
    ),
    (ALTER_CLIENT_QUOTAS, quotas(([("user", "q1")], {RATE: None, "consumer_byte_rate": None}))),
    (DESCRIBE_CLIENT_QUOTAS, wanted(("user", 0, "q1"))),
    # Kafka enforces these, and other tests use the same broker.
    (ALTER_CLIENT_QUOTAS, quotas(([("ip", None)], {"connection_creation_rate": None}))),
    (ALTER_CLIENT_QUOTAS, quotas(([("ip", "::1")], {"connection_creation_rate": None}))),
    (DESCRIBE_CLIENT_QUOTAS, wanted(("ip", 2, None))),
]


@pytest.mark.parametrize("version", [0, 1])
def test_alter_client_quotas_and_describe_client_quotas_are_as_in_kafka(
    kafka: Asker, tidelog: Asker, version: int
) -> None:
    same_answers(kafka, tidelog, [(api, version, request) for api, request in QUOTA_SCRIPT])


def test_alter_user_scram_credentials_and_describe_user_scram_credentials_are_as_in_kafka(
    kafka: Asker, tidelog: Asker
) -> None:
    def described(*users: str) -> tuple[Api, int, Any]:
        names = [UserName(name=user) for user in users]
        return DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest(users=names)

    alterations = [
        credentials(upsertion("alice")),
        credentials(upsertion("alice", 2, 16384), upsertion("bob", 1, 4095), upsertion("carl", 1, 16385)),
        credentials(upsertion(""), upsertion("dora", 0), upsertion("eve", 3), upsertion("fred", 2, 4095)),
        credentials(upsertion("alice"), deletions=[("alice", 2), ("nobody", 1), ("", 1), ("zed", 9)]),
        credentials(upsertion("alice", 1), upsertion("alice", 2)),
        credentials(deletions=[("alice", 1)] * 3),
        credentials(),
        credentials(deletions=[("alice", 1)]),
        credentials(deletions=[("alice", 1)]),
    ]
    describing = [
        described(),
        described("alice", "nobody"),
        described("alice", "alice", "x", "x"),
        described(""),
    ]
    script: list[tuple[Api, int, Any]] = []
    for request in alterations:
        script += [(ALTER_USER_SCRAM_CREDENTIALS, 0, request), *describing]
    same_answers(kafka, tidelog, script)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_describe_acls_create_acls_and_delete_acls_are_as_in_kafka_without_an_authorizer(
    kafka: Asker, tidelog: Asker, version: int
) -> None:
    entry = AclCreation(
        resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
    )
    wanted: dict[str, Any] = {
        "resource_type_filter": 2,
        "resource_name_filter": None,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    same_answers(
        kafka,
        tidelog,
        [
            (DESCRIBE_ACLS, version, DescribeAclsRequest(**wanted)),
            (CREATE_ACLS, version, CreateAclsRequest(creations=[entry] * 2)),
            (CREATE_ACLS, version, CreateAclsRequest(creations=[])),
            (DELETE_ACLS, version, DeleteAclsRequest(filters=[DeleteAclsFilter(**wanted)] * 3)),
        ],
    )


def test_plain_has_every_field_of_an_answer() -> None:
    described = plain(wanted(("user", 0, "a"), strict=True))
    assert described == {
        "components": [{"entity_type": "user", "match_type": 0, "match": "a"}],
        "strict": True,
    }

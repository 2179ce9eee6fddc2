"""Entries of access control that Apache Kafka wrote are in the image, and those of the image are Kafka's."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from tests.deadlines import DEADLINE_S
from tests.plugins.metadata_kraft.hands import kafka_on
from tidelog.kernel.metadata import MetadataDelta
from tidelog.kernel.metadata.acls import AclEntry
from tidelog.kernel.testing.broker import running_broker

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
READ, WRITE, ALLOW, DENY, LITERAL, PREFIXED, TOPIC = 3, 4, 3, 2, 3, 4, 2
ALICE = AclEntry(TOPIC, "orders", LITERAL, "User:alice", "*", READ, ALLOW)
BOB = AclEntry(TOPIC, "or", PREFIXED, "User:bob", "127.0.0.1", WRITE, DENY)


def binding(entry: AclEntry) -> AclBinding:
    """The entry as the client has it."""
    return AclBinding(
        ResourceType(entry.resource_type),
        entry.resource_name,
        ResourcePatternType(entry.pattern_type),
        entry.principal,
        entry.host,
        AclOperation(entry.operation),
        AclPermissionType(entry.permission_type),
    )


def seen_by(bootstrap: str) -> set[AclBinding]:
    """All entries that the broker lists."""
    anything = cast("str", None)
    every = AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        anything,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return set(admin.describe_acls(every).result(DEADLINE_S))


@pytest.mark.long
async def test_acls_change_hands(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kafka = kafka_on(data, tmp_path / "kafka", **AUTHORIZER)
    try:
        kafka.start()
        gone = ALICE._replace(principal="User:carl")
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for future in admin.create_acls([binding(ALICE), binding(gone)]).values():
            future.result(DEADLINE_S)
        only_gone = AclBindingFilter(
            ResourceType.TOPIC,
            "orders",
            ResourcePatternType.LITERAL,
            gone.principal,
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for future in admin.delete_acls([only_gone]).values():
            future.result(DEADLINE_S)
        kafka.stop()

        async with running_broker({"storage": "file", "log.dirs": str(data), "node.id": "1"}) as broker:
            assert list(broker.image.acls.values()) == [ALICE]
            await broker.metadata.commit(MetadataDelta(acls={b"fifteen bytes...": BOB}))
            assert set(broker.image.acls.values()) == {ALICE, BOB}
        async with running_broker({"storage": "file", "log.dirs": str(data), "node.id": "1"}) as broker:
            assert set(broker.image.acls.values()) == {ALICE, BOB}

        kafka.start()
        assert seen_by(kafka.bootstrap) == {binding(ALICE), binding(BOB)}
    finally:
        kafka.stop()

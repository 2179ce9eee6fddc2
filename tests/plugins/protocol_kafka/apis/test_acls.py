"""DescribeAcls, CreateAcls and DeleteAcls, and SECURITY_DISABLED where there is no authorizer for them."""

from __future__ import annotations

import pytest

from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from tidelog.plugins.protocol_kafka.messages.create_acls import AclCreation, CreateAclsRequest
from tidelog.plugins.protocol_kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tidelog.plugins.protocol_kafka.messages.describe_acls import DescribeAclsRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .client import Client, versions_of

TOPIC, ANY, READ, ALLOW = 2, 1, 3, 3
DISABLED = ErrorCode.SECURITY_DISABLED


@pytest.mark.parametrize("version", versions_of(DESCRIBE_ACLS))
async def test_describe_acls_is_refused(client: Client, version: int) -> None:
    request = DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    answer = await client.ask(DESCRIBE_ACLS, version, request)
    assert (answer.error_code, bool(answer.error_message), answer.resources) == (DISABLED, True, [])


@pytest.mark.parametrize("version", versions_of(CREATE_ACLS))
async def test_create_acls_refuses_each_entry(client: Client, version: int) -> None:
    entries = [
        AclCreation(
            resource_type=TOPIC,
            resource_name=name,
            principal="User:alice",
            host="*",
            operation=READ,
            permission_type=ALLOW,
        )
        for name in "abc"
    ]
    answer = await client.ask(CREATE_ACLS, version, CreateAclsRequest(creations=entries))
    assert [result.error_code for result in answer.results] == [DISABLED] * 3


@pytest.mark.parametrize("version", versions_of(DELETE_ACLS))
async def test_delete_acls_refuses_each_filter(client: Client, version: int) -> None:
    filters = [
        DeleteAclsFilter(
            resource_type_filter=TOPIC,
            resource_name_filter=name,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        for name in (None, "a")
    ]
    answer = await client.ask(DELETE_ACLS, version, DeleteAclsRequest(filters=filters))
    found = [(result.error_code, result.matching_acls) for result in answer.filter_results]
    assert found == [(DISABLED, [])] * 2


@pytest.mark.parametrize("version", versions_of(CREATE_ACLS, 1))
async def test_entries_are_created_listed_and_deleted(version: int) -> None:
    settings = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
    async with running_broker(settings) as broker:
        client = Client(broker)
        entries = [
            AclCreation(
                resource_type=TOPIC,
                resource_name=name,
                resource_pattern_type=pattern,
                principal="User:alice",
                host="*",
                operation=READ,
                permission_type=ALLOW,
            )
            for name, pattern in (("orders", 3), ("ord", 4), ("orders", 3), ("", 3))
        ]
        created = await client.ask(CREATE_ACLS, version, CreateAclsRequest(creations=entries))
        codes = [result.error_code for result in created.results]
        assert codes == [0, 0, 0, ErrorCode.INVALID_REQUEST]
        wanted = DescribeAclsRequest(
            resource_type_filter=TOPIC,
            resource_name_filter="orders",
            pattern_type_filter=2,
            principal_filter=None,
            host_filter=None,
            operation=ANY,
            permission_type=ANY,
        )
        listed = await client.ask(DESCRIBE_ACLS, version, wanted)
        found = {(each.resource_name, each.pattern_type): len(each.acls) for each in listed.resources}
        assert found == {("orders", 3): 1, ("ord", 4): 1}
        wanted.operation = 99
        assert (await client.ask(DESCRIBE_ACLS, version, wanted)).resources == []
        filters = [
            DeleteAclsFilter(
                resource_type_filter=TOPIC,
                resource_name_filter="orders",
                pattern_type_filter=3,
                principal_filter=None,
                host_filter=None,
                operation=operation,
                permission_type=ANY,
            )
            for operation in (READ, 99)
        ]
        deleted = await client.ask(DELETE_ACLS, version, DeleteAclsRequest(filters=filters))
        found_by = [(each.error_code, len(each.matching_acls)) for each in deleted.filter_results]
        assert found_by == [(0, 1), (ErrorCode.INVALID_REQUEST, 0)]
        assert [entry.resource_name for entry in broker.image.acls.values()] == ["ord"]

"""DescribeAcls, CreateAcls and DeleteAcls: SECURITY_DISABLED for each part of a request."""

from __future__ import annotations

import pytest

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

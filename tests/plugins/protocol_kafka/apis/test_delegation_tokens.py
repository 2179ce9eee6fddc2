"""The APIs of delegation tokens, in every version; their errors are compared with those of Apache Kafka."""

from __future__ import annotations

import pytest

from tests.plugins.protocol_kafka.apis.client import versions_of
from tests.plugins.protocol_kafka.apis.test_sasl import SaslClient, sasl_client
from tests.tables import for_each
from tidelog.kernel.metadata.delegation_tokens import token_hmac
from tidelog.plugins.protocol_kafka.messages.api import (
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
)
from tidelog.plugins.protocol_kafka.messages.create_delegation_token import (
    CreatableRenewer,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tidelog.plugins.protocol_kafka.messages.describe_delegation_token import DescribeDelegationTokenRequest
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.expire_delegation_token import ExpireDelegationTokenRequest
from tidelog.plugins.protocol_kafka.messages.renew_delegation_token import RenewDelegationTokenRequest

SECRET = "of the broker"


async def created(client: SaslClient, version: int) -> CreateDelegationTokenResponse:
    """A token of alice, which bob may renew."""
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewer(principal_type="User", principal_name="bob")], max_lifetime_ms=-1
    )
    answer: CreateDelegationTokenResponse = await client.ask(CREATE_DELEGATION_TOKEN, version, request)
    assert answer.error_code == 0
    return answer


@for_each("version", versions_of(CREATE_DELEGATION_TOKEN))
async def test_create_and_describe(version: int) -> None:
    async with sasl_client(delegation_token_secret_key=SECRET) as client:
        await client.log_in()
        token = await created(client, version)
        assert (token.principal_type, token.principal_name) == ("User", "alice")
        assert token.token_requester_principal_name == ("alice" if version >= 3 else "")
        assert token.hmac == token_hmac(SECRET, token.token_id)
        assert "hmac" not in repr(token)
        request = DescribeDelegationTokenRequest(owners=None)
        answer = await client.ask(DESCRIBE_DELEGATION_TOKEN, version, request)
        (found,) = answer.tokens
        assert (found.token_id, found.hmac, found.principal_name) == (token.token_id, token.hmac, "alice")
        assert [(each.principal_type, each.principal_name) for each in found.renewers] == [("User", "bob")]


@for_each("version", versions_of(RENEW_DELEGATION_TOKEN))
async def test_renew_and_expire(version: int) -> None:
    async with sasl_client(delegation_token_secret_key=SECRET) as client:
        await client.log_in()
        token = await created(client, 3)
        renewal = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=1000)
        renewed = await client.ask(RENEW_DELEGATION_TOKEN, version, renewal)
        assert (renewed.error_code, renewed.expiry_timestamp_ms < token.expiry_timestamp_ms) == (0, True)
        removal = ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=-1)
        assert (await client.ask(EXPIRE_DELEGATION_TOKEN, version, removal)).error_code == 0
        again = await client.ask(EXPIRE_DELEGATION_TOKEN, version, removal)
        assert again.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize("lasts", [True, False])
async def test_a_disk_that_refuses_is_the_error_of_a_request(
    monkeypatch: pytest.MonkeyPatch, lasts: bool
) -> None:
    async with sasl_client(delegation_token_secret_key=SECRET) as client:
        await client.log_in()
        token = await created(client, 3)

        async def refuse(_delta: object) -> None:
            raise OSError("no space left")

        if not lasts:
            monkeypatch.setattr(client.broker.metadata, "commit", refuse)
        expected = 0 if lasts else ErrorCode.KAFKA_STORAGE_ERROR
        request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
        assert (await client.ask(CREATE_DELEGATION_TOKEN, 3, request)).error_code == expected
        renewal = RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=1000)
        assert (await client.ask(RENEW_DELEGATION_TOKEN, 2, renewal)).error_code == expected

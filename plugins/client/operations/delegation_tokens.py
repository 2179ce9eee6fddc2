"""Delegation tokens: Create-, Renew-, Expire- and DescribeDelegationToken (KIP-48, KIP-373).

Who has a token logs in by SCRAM, with its id as the user and `DelegationToken.password`, and is its owner:

    sasl.jaas.config=ScramLoginModule required username="ID" password="PASSWORD" tokenauth="true";
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.sending import retrying, send_request
from tidelog.plugins.protocol_kafka.messages.create_delegation_token import (
    CreatableRenewer,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tidelog.plugins.protocol_kafka.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribedTokenOwner,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from tidelog.plugins.protocol_kafka.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

if TYPE_CHECKING:
    from tidelog.plugins.client.steps import Session, Steps


@attrs.frozen
class DelegationToken:
    """A token: principals as text (`User:alice`), and times in milliseconds since the epoch.

    `hmac` is its secret, by which it is renewed and expired; it is in no representation.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes = attrs.field(repr=False)

    @property
    def password(self) -> str:
        """The password with which its holder logs in."""
        return b64encode(self.hmac).decode()


def create_delegation_token(
    session: Session,
    owner: str | None = None,
    renewers: Iterable[str] = (),
    max_lifetime_ms: int = -1,
) -> Steps[DelegationToken]:
    """Create a token of this client's own principal, or of `owner` (Kafka 3.3 and later).

    It can be renewed by its owner and by `renewers`, until `max_lifetime_ms` has passed; -1 is as long as the
    broker permits.

    Raises:
        ValueError: a principal is not of the form User:NAME.
        ErrorResponse: the broker refuses.
        ClientError: no broker answered; there may be a token.
    """
    some = [*renewers]
    kind, name = (None, None) if owner is None else _principal(owner)
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[
            CreatableRenewer(principal_type=kind, principal_name=name) for kind, name in map(_principal, some)
        ],
        max_lifetime_ms=max_lifetime_ms,
    )
    # Not sent again: each creates a token.
    answer: CreateDelegationTokenResponse = yield from send_request(session, request)
    _check(answer.error_code, "a new delegation token")
    owner = f"{answer.principal_type}:{answer.principal_name}"
    requester = f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}"
    return DelegationToken(
        answer.token_id,
        owner,
        requester if answer.token_requester_principal_name else owner,
        tuple(some),
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
        answer.hmac,
    )


def renew_delegation_token(session: Session, hmac: bytes, period_ms: int = -1) -> Steps[int]:
    """Have a token expire in `period_ms`, -1 for as late as the broker permits; return when it does.

    Raises:
        ErrorResponse: the broker refuses.
        ClientError: no broker answered.
    """
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)

    def attempt() -> Steps[int]:
        answer: RenewDelegationTokenResponse = yield from send_request(session, request)
        _check(answer.error_code, "the delegation token")
        return answer.expiry_timestamp_ms

    return (yield from retrying(session, attempt))


def expire_delegation_token(session: Session, hmac: bytes, period_ms: int = -1) -> Steps[int]:
    """Have a token expire in `period_ms`, -1 for now, which removes it; return when it does.

    Raises:
        ErrorResponse: the broker refuses.
        ClientError: no broker answered.
    """
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)

    def attempt() -> Steps[int]:
        answer: ExpireDelegationTokenResponse = yield from send_request(session, request)
        _check(answer.error_code, "the delegation token")
        return answer.expiry_timestamp_ms

    return (yield from retrying(session, attempt))


def describe_delegation_tokens(
    session: Session, owners: Iterable[str] | None = None
) -> Steps[list[DelegationToken]]:
    """Return the tokens that concern these principals, or all, as far as this client may see them.

    Raises:
        ValueError: a principal is not of the form User:NAME.
        ErrorResponse: the broker refuses.
        ClientError: no broker answered.
    """
    wanted = None if owners is None else [*map(_principal, owners)]
    request = DescribeDelegationTokenRequest(
        owners=None
        if wanted is None
        else [DescribedTokenOwner(principal_type=kind, principal_name=name) for kind, name in wanted]
    )

    def attempt() -> Steps[list[DelegationToken]]:
        answer: DescribeDelegationTokenResponse = yield from send_request(session, request)
        _check(answer.error_code, "delegation tokens")
        return [*map(_described, answer.tokens)]

    return (yield from retrying(session, attempt))


def _described(token: DescribedDelegationToken) -> DelegationToken:
    owner = f"{token.principal_type}:{token.principal_name}"
    requester = f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
    return DelegationToken(
        token.token_id,
        owner,
        requester if token.token_requester_principal_name else owner,
        tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
        token.hmac,
    )


def _principal(text: str) -> tuple[str, str]:
    kind, _, name = text.partition(":")
    if not kind or not name:
        raise ValueError(f"{text!r} is no principal such as User:alice")
    return kind, name


def _check(code: int, subject: str) -> None:
    if code:
        raise ErrorResponse(ErrorCode.of(code), subject)

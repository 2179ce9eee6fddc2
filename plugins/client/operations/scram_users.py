"""Users of SCRAM: DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554).

A password is salted here: no broker gets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, get_args

import attrs

from tidelog.kernel.metadata.scram import ScramMechanism
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.sending import Outcomes, retrying, send_request
from tidelog.plugins.credentials.scram import new_salt, salted_password
from tidelog.plugins.protocol_kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.plugins.protocol_kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.plugins.client.steps import Session, Steps

ScramMechanismName = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
MECHANISMS: Final[tuple[str, ...]] = get_args(ScramMechanismName)
DEFAULT_ITERATIONS: Final = 4096
"""That of Kafka's tools; brokers take 4096 to 16384."""
_BY_NAME: Final = {each.sasl_name: each for each in ScramMechanism}
_UNKNOWN: Final = "unknown"


@attrs.frozen
class ScramUser:
    """A user and one of the mechanisms that it has a credential of."""

    user: str
    mechanism: str = MECHANISMS[0]


@attrs.frozen
class NewScramPassword:
    """The password to set for a user and a mechanism; it is in no representation."""

    password: str = attrs.field(repr=False)
    iterations: int = DEFAULT_ITERATIONS


def describe_user_scram_credentials(
    session: Session, users: Iterable[str] | None = None
) -> Steps[Outcomes[str, dict[str, int]]]:
    """Return the iterations by mechanism of the users, of all users without names.

    Raises:
        UnsupportedByBroker: the broker does not serve DescribeUserScramCredentials (Kafka before 2.7).
        ErrorResponse: the broker refuses.
        ClientError: no broker answered.
    """
    wanted = None if users is None else list(dict.fromkeys(users))
    request = DescribeUserScramCredentialsRequest(
        users=None if wanted is None else [UserName(name=name) for name in wanted]
    )

    def attempt() -> Steps[DescribeUserScramCredentialsResponse]:
        answer: DescribeUserScramCredentialsResponse = yield from send_request(session, request)
        if answer.error_code:
            raise ErrorResponse(ErrorCode.of(answer.error_code), "users", answer.error_message)
        return answer

    answer = yield from retrying(session, attempt)
    outcomes: Outcomes[str, dict[str, int]] = {}
    for result in answer.results:
        if result.error_code:
            code = ErrorCode.of(result.error_code)
            outcomes[result.user] = ErrorResponse(code, f"user {result.user!r}", result.error_message)
        else:
            outcomes[result.user] = {
                _name(each.mechanism): each.iterations for each in result.credential_infos
            }
    return outcomes


def alter_user_scram_credentials(
    session: Session, changes: Mapping[ScramUser, NewScramPassword | None]
) -> Steps[Outcomes[ScramUser, None]]:
    """Set passwords, None deletes a credential; return the outcome of each, None for success.

    A broker changes one mechanism of a user in a request: several are several requests. To hash a password
    takes a few milliseconds.

    Raises:
        ValueError: there is no such mechanism.
        UnsupportedByBroker: the broker does not serve AlterUserScramCredentials (Kafka before 2.7).
        ClientError: the outcome of every change is unknown.
    """
    outcomes: Outcomes[ScramUser, None] = {}
    for mechanism in dict.fromkeys(each.mechanism for each in changes):
        if mechanism not in _BY_NAME:
            raise ValueError(f"{mechanism!r} is none of {', '.join(MECHANISMS)}")
        some = {each: password for each, password in changes.items() if each.mechanism == mechanism}
        request = _request(_BY_NAME[mechanism], some)
        outcomes |= yield from _altered(session, list(some), request)
    return outcomes


def _altered(
    session: Session, some: Sequence[ScramUser], request: AlterUserScramCredentialsRequest
) -> Steps[Outcomes[ScramUser, None]]:
    answer: AlterUserScramCredentialsResponse = yield from retrying(
        session, lambda: send_request(session, request)
    )
    results = {result.user: result for result in answer.results}
    outcomes: Outcomes[ScramUser, None] = {}
    for each in some:
        result = results.get(each.user)
        if result is None:
            outcomes[each] = ErrorResponse.missing(f"user {each.user!r}")
        elif result.error_code:
            code = ErrorCode.of(result.error_code)
            outcomes[each] = ErrorResponse(code, f"user {each.user!r}", result.error_message)
        else:
            outcomes[each] = None
    return outcomes


def _request(
    mechanism: ScramMechanism, changes: Mapping[ScramUser, NewScramPassword | None]
) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[
            ScramCredentialDeletion(name=each.user, mechanism=mechanism)
            for each, password in changes.items()
            if password is None
        ],
        upsertions=[
            _upsertion(each.user, mechanism, password)
            for each, password in changes.items()
            if password is not None
        ],
    )


def _upsertion(user: str, mechanism: ScramMechanism, new: NewScramPassword) -> ScramCredentialUpsertion:
    salt = new_salt()
    return ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=new.iterations,
        salt=salt,
        salted_password=salted_password(mechanism, new.password, salt, new.iterations),
    )


def _name(mechanism: int) -> str:
    return next((each.sasl_name for each in ScramMechanism if each == mechanism), _UNKNOWN)

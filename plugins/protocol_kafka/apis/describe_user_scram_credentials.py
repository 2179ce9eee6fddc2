"""DescribeUserScramCredentials (API 50): the mechanisms and iterations of users, without any secret."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError, DuplicateResource, ResourceNotFound
from tidelog.kernel.pace import Pace
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


async def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Describe the users in the request, or all of them; one that is named twice is refused."""
    infos: dict[str, list[CredentialInfo]] = {}
    pace = Pace()
    for key, credential in context.broker.image.credentials.items():
        info = CredentialInfo(mechanism=key.mechanism, iterations=credential.iterations)
        infos.setdefault(key.user, []).append(info)
        await pace.turn()
    times: dict[str, int] = {}
    for user in request.users or ():
        times[user.name] = times.get(user.name, 0) + 1
        await pace.turn()
    times = times or dict.fromkeys(infos, 1)
    results: list[DescribeUserScramCredentialsResult] = []
    for name, count in times.items():
        results.append(_result(context, name, count, infos.get(name)))
        await pace.turn()
    # As in Kafka, whose messages of a success are empty and not null.
    return DescribeUserScramCredentialsResponse(error_code=0, error_message="", results=results)


def _result(
    context: RequestContext, user: str, times: int, infos: list[CredentialInfo] | None
) -> DescribeUserScramCredentialsResult:
    error: BrokerError | None = None
    if times > 1:
        error = DuplicateResource(
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    elif infos is None:
        error = ResourceNotFound(f"Attempt to describe a user credential that does not exist: {user}")
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=error_code(error) if error else 0,
        error_message=context.error_message(error) if error else "",
        credential_infos=[] if error or infos is None else infos,
    )

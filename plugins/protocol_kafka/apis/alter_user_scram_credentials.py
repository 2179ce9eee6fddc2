"""AlterUserScramCredentials (API 51): set and delete the salted passwords of users."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from tidelog.kernel.errors import BrokerError, StorageError
from tidelog.kernel.metadata.scram import CredentialKey, ScramUpsertion
from tidelog.kernel.pace import Pace
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


async def handle(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change each user independently, once; there is one result for each."""
    pace = Pace()
    deletions: list[CredentialKey] = []
    for deletion in request.deletions:
        deletions.append(CredentialKey(deletion.name, deletion.mechanism))
        await pace.turn()
    upsertions: list[ScramUpsertion] = []
    for each in request.upsertions:
        key = CredentialKey(each.name, each.mechanism)
        upsertions.append(ScramUpsertion(key, each.salt, each.salted_password, each.iterations))
        await pace.turn()
    results: Mapping[str, BrokerError | None]
    try:
        results = await context.broker.controller.alter_scram_credentials(deletions, upsertions)
    except StorageError as error:
        keys = [*deletions, *(upsertion.key for upsertion in upsertions)]
        results = dict.fromkeys((key.user for key in keys), error)
    answered: list[AlterUserScramCredentialsResult] = []
    for user, refused in results.items():
        answered.append(_result(context, user, refused))
        await pace.turn()
    return AlterUserScramCredentialsResponse(results=answered)


def refuse(
    request: AlterUserScramCredentialsRequest, code: int, text: str | None
) -> Generator[None, None, AlterUserScramCredentialsResponse]:
    """Return the response to a request that is refused as a whole."""
    results: dict[str, AlterUserScramCredentialsResult] = {}
    users = *(each.name for each in request.deletions), *(each.name for each in request.upsertions)
    for user in users:
        results[user] = AlterUserScramCredentialsResult(user=user, error_code=code, error_message=text)
        yield
    return AlterUserScramCredentialsResponse(results=[*results.values()])


def _result(context: RequestContext, user: str, error: BrokerError | None) -> AlterUserScramCredentialsResult:
    if error is not None:
        context.warn("refusing to change SCRAM credentials for", error)
    return AlterUserScramCredentialsResult(
        user=user,
        error_code=error_code(error) if error else 0,
        error_message=context.error_message(error) if error else None,
    )

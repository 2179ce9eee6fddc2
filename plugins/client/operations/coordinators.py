"""FindCoordinator: requests to the coordinator of a group or of a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.plugins.client.errors import ClientError, ErrorResponse, UnsendableRequest
from tidelog.plugins.client.operations.sending import retrying, send_request
from tidelog.plugins.client.requests import ByVersion
from tidelog.plugins.protocol_kafka.messages.api import FIND_COORDINATOR
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.find_coordinator import (
    GROUP_KEY,
    FindCoordinatorCoordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.plugins.client.cluster import CoordinatorKey
    from tidelog.plugins.client.steps import Session, Steps

KEY_TYPES_SINCE: Final = 1
MANY_KEYS_SINCE = 4
COORDINATOR_LANE: Final = "coordinator"


def ask_coordinator(
    session: Session,
    key: CoordinatorKey,
    request: object,
    error_of: Callable[[Any], ErrorResponse | None],
    *,
    at_most: int | None = None,
) -> Steps[Any]:
    """Return the coordinator's response; retry retriable errors by the retry policy.

    Args:
        session: the client's session
        key: the group or the transactional id
        request: a message or a `ByVersion`; it may be sent several times
        error_of: returns the error in a response, None without one
        at_most: the highest version to use

    Raises:
        ErrorResponse: the error that `error_of` returned.
        ClientError: no coordinator answered.
    """

    def attempt() -> Steps[Any]:
        answer = yield from ask_coordinator_once(session, key, request, at_most=at_most)
        error = error_of(answer)
        if error is not None:
            forget_if_moved(session, key, error)
            raise error
        return answer

    return (yield from retrying(session, attempt))


def ask_coordinator_once(
    session: Session,
    key: CoordinatorKey,
    request: object,
    *,
    at_most: int | None = None,
    max_delay_s: float = 0.0,
    lane: str = COORDINATOR_LANE,
) -> Steps[Any]:
    """Return the coordinator's response, errors included; without a retry.

    For `max_delay_s` and `lane` see `Exchange`. By default a request does not wait behind fetches, which wait
    for records.

    Raises:
        ClientError: the coordinator is not known, or did not answer.
    """
    node = session.cluster.coordinator(key)
    if node is None:
        node = yield from _find(session, key)
    try:
        return (
            yield from send_request(
                session, request, node=node, at_most=at_most, max_delay_s=max_delay_s, lane=lane
            )
        )
    except ClientError as error:
        forget_if_moved(session, key, error)
        raise


def forget_if_moved(session: Session, key: CoordinatorKey, error: ClientError) -> None:
    """Drop the cached coordinator after an error that looking it up again may resolve."""
    if not isinstance(error, ErrorResponse) or error.code.refreshes_metadata:
        session.cluster.forget_coordinator(key)


def _find(session: Session, key: CoordinatorKey) -> Steps[int]:
    def build(version: int) -> FindCoordinatorRequest:
        if version >= MANY_KEYS_SINCE:
            return FindCoordinatorRequest(key_type=key.kind, coordinator_keys=[key.name])
        if version < KEY_TYPES_SINCE and key.kind != GROUP_KEY:
            raise UnsendableRequest("the broker", "it is too old for transactions (Kafka 0.11)")
        return FindCoordinatorRequest(key=key.name, key_type=key.kind)

    answer: FindCoordinatorResponse = yield from send_request(session, ByVersion(FIND_COORDINATOR, build))
    found: FindCoordinatorCoordinator | FindCoordinatorResponse = (
        answer.coordinators[0] if answer.coordinators else answer
    )
    if found.error_code:
        raise ErrorResponse(ErrorCode.of(found.error_code), str(key), found.error_message)
    session.cluster.store_coordinator(key, found.node_id)
    return found.node_id

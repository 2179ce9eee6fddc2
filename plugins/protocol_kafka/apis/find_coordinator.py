"""FindCoordinator (API 10): the coordinator of groups or transactional ids."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError, CoordinatorNotAvailable, InvalidRequest
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.wire import WireContext
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.find_coordinator import (
    GROUP_KEY,
    SHARE_KEY,
    TRANSACTION_KEY,
    FindCoordinatorCoordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST_VERSION_OF = {GROUP_KEY: 0, TRANSACTION_KEY: 1, SHARE_KEY: 6}
MANY_KEYS_SINCE = 4
NO_NODE = -1


async def handle(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Return one coordinator, or from version 4 on one for each key.

    The first client waits until the internal topic of the coordinator's state is created; Kafka answers
    COORDINATOR_NOT_AVAILABLE meanwhile, and the client retries.
    """
    version = context.api_version
    keys = request.coordinator_keys if version >= MANY_KEYS_SINCE else [request.key]
    refusal: BrokerError | None = None
    try:
        await _prepare(context.broker, request.key_type, version)
    except BrokerError as error:
        refusal = error
    pace = Pace()
    found: list[FindCoordinatorCoordinator] = []
    for key in keys:
        found.append(_found(context, key) if refusal is None else _refused(context, key, refusal))
        await pace.turn()
    if version >= MANY_KEYS_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


async def _prepare(broker: WireContext, key_type: int, version: int) -> None:
    since = FIRST_VERSION_OF.get(key_type)
    if since is None or version < since:
        raise InvalidRequest(f"version {version} has no coordinators of type {key_type}")
    if key_type == SHARE_KEY:
        raise CoordinatorNotAvailable("this broker coordinates no share groups")
    coordinator = broker.coordinator
    prepare = coordinator.prepare_groups if key_type == GROUP_KEY else coordinator.prepare_transactions
    try:
        await prepare()
    except BrokerError as error:
        raise CoordinatorNotAvailable(f"what coordinators keep cannot be kept: {error}") from error


def _found(context: RequestContext, key: str) -> FindCoordinatorCoordinator:
    broker = context.broker.cluster.coordinator_for(key, context.peer.listener_name)
    return FindCoordinatorCoordinator(
        key=key, node_id=broker.node_id, host=broker.host, port=broker.port, error_code=0, error_message=None
    )


def _refused(context: RequestContext, key: str, error: BrokerError) -> FindCoordinatorCoordinator:
    return FindCoordinatorCoordinator(
        key=key,
        node_id=NO_NODE,
        host="",
        port=NO_NODE,
        error_code=error_code(error),
        error_message=context.error_message(error),
    )

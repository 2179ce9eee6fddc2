"""FindCoordinator (API 10): the coordinator of groups or transactional ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from tidelog.kernel.cluster.cluster import BrokerEndpoint

FIRST_VERSION_OF = {GROUP_KEY: 0, TRANSACTION_KEY: 1, SHARE_KEY: 6}
MANY_KEYS_SINCE = 4
NO_NODE = -1
TOPIC_OF = {GROUP_KEY: "__consumer_offsets", TRANSACTION_KEY: "__transaction_state"}


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
        found.append(
            _found(context, request.key_type, key) if refusal is None else _refused(context, key, refusal)
        )
        await pace.turn()
    if version >= MANY_KEYS_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        # Where there is no error Apache Kafka has the words of its error NONE here.
        error_message=only.error_message if only.error_code else "NONE",
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


def _found(context: RequestContext, key_type: int, key: str) -> FindCoordinatorCoordinator:
    try:
        broker = _coordinator_of(context, key_type, key)
    except CoordinatorNotAvailable as error:
        return _refused(context, key, error)
    return FindCoordinatorCoordinator(
        key=key, node_id=broker.node_id, host=broker.host, port=broker.port, error_code=0, error_message=""
    )


def _coordinator_of(context: RequestContext, key_type: int, key: str) -> BrokerEndpoint:
    """Return the broker that leads the partition of a key's state.

    Raises:
        CoordinatorNotAvailable: there is none, or it is not alive.
    """
    broker, listener_name = context.broker, context.peer.listener_name
    coordinator = broker.coordinator
    partition_for = (
        coordinator.partition_for_group
        if key_type == GROUP_KEY
        else coordinator.partition_for_transactional_id
    )
    partition = broker.replicas.find(TOPIC_OF[key_type], partition_for(key))
    if partition is None:
        # The state is in no topic, so it is this broker's own.
        return broker.cluster.this_broker(listener_name)
    leader = broker.cluster.find(partition.leader_id, listener_name)
    if leader is None:
        raise CoordinatorNotAvailable(f"{partition.topic_partition} has no leader")
    return leader


def _refused(context: RequestContext, key: str, error: BrokerError) -> FindCoordinatorCoordinator:
    return FindCoordinatorCoordinator(
        key=key,
        node_id=NO_NODE,
        host="",
        port=NO_NODE,
        error_code=error_code(error),
        error_message=context.error_message(error),
    )

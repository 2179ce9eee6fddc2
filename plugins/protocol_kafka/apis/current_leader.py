"""The current leader that Produce and Fetch name to a client which asked another broker (KIP-951).

Source: Apache Kafka's `KafkaApis.getCurrentLeader`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from tidelog.plugins.protocol_kafka.context import RequestContext

UNKNOWN = -1, -1


class NodeEndpoint(Protocol):
    """The address of a broker in a response."""

    node_id: int


E = TypeVar("E", bound=NodeEndpoint)


def name_leader(
    context: RequestContext, topic: str, index: int, endpoints: list[E], make: Callable[..., E]
) -> tuple[int, int]:
    """Return the id of a partition's leader and its epoch, -1 for what is unknown.

    What `make` returns of its address is added to `endpoints`, if it is alive and not there already.
    """
    partition = context.broker.replicas.find(topic, index)
    if partition is None:
        return UNKNOWN
    leader_id = partition.leader_id
    broker = context.broker.cluster.find(leader_id, context.peer.listener_name)
    if broker is not None and all(each.node_id != leader_id for each in endpoints):
        endpoints.append(make(node_id=leader_id, host=broker.host, port=broker.port, rack=broker.rack))
    return leader_id, partition.leader_epoch

"""The codec `kafka`: makes a connection object for each client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.seams.wire import Peer, WireConnection
from tidelog.plugins.protocol_kafka.connection import KafkaConnection

if TYPE_CHECKING:
    from tidelog.kernel.seams.wire import WireContext


class KafkaCodec:
    """Kafka's protocol, every version that the handlers serve."""

    name = "kafka"

    def connect(self, broker: WireContext, peer: Peer) -> WireConnection:
        """Protocol state for a new connection."""
        return KafkaConnection(broker, peer)

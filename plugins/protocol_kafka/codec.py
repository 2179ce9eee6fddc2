"""The codec `kafka`, which creates a connection object for each client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.kernel.seams.wire import Peer, WireConnection
from tidelog.plugins.protocol_kafka.connection import KafkaConnection
from tidelog.plugins.protocol_kafka.routes import Routes

if TYPE_CHECKING:
    from tidelog.kernel.seams.broker import PluginHooks
    from tidelog.kernel.seams.wire import WireContext
    from tidelog.plugins.protocol_kafka.apis import KafkaApi


class KafkaCodec:
    """Kafka's protocol: every version that the handlers serve, and the APIs that other plugins add."""

    name = "kafka"

    def __init__(self, plugins: PluginHooks) -> None:
        """Collect the APIs of other plugins.

        Raises:
            PluginError: an API cannot be served, see `checked_apis`.
        """
        self._routes = Routes(_added_apis(plugins))

    def connect(self, broker: WireContext, peer: Peer) -> WireConnection:
        """Return the protocol state of a new connection."""
        return KafkaConnection(broker, peer, self._routes)


def _added_apis(plugins: PluginHooks) -> Sequence[KafkaApi]:
    offered = list(plugins.ask("tidelog_kafka_apis"))
    if not offered:
        return ()
    # Not at the top: a broker without such plugins never needs it.
    from tidelog.plugins.protocol_kafka.apis import checked_apis

    return checked_apis(offered)

"""The wire protocol `kafka`: what all of its connections share, and which kind each listener has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from tidelog.kernel.seams.wire import Peer, WireConnection
from tidelog.plugins.protocol_kafka.apis import checked_apis
from tidelog.plugins.protocol_kafka.client_telemetry import ClientTelemetry, MeteringReceiver
from tidelog.plugins.protocol_kafka.connection import KafkaConnection, fetch_session_cache
from tidelog.plugins.protocol_kafka.fetch_session_cache import FetchSessionCache
from tidelog.plugins.protocol_kafka.request_meters import RequestMeters
from tidelog.plugins.protocol_kafka.routes import Routes

if TYPE_CHECKING:
    from tidelog.kernel.seams.broker import PluginHooks
    from tidelog.kernel.seams.wire import ReceiveMemory, WireContext
    from tidelog.plugins.protocol_kafka.client_telemetry import TelemetryReceiver


class KafkaCodec:
    """Kafka's protocol: the APIs that plugins serve, this one and others."""

    name = "kafka"

    def __init__(self, plugins: PluginHooks) -> None:
        """Collect the APIs.

        Raises:
            PluginError: an API cannot be served, see `checked_apis`.
        """
        offered = plugins.ask("tidelog_client_telemetry_receivers")
        receivers = cast("list[TelemetryReceiver]", [each for _, functions in offered for each in functions])
        self._telemetry = ClientTelemetry(receivers)
        self._apis = checked_apis(plugins.ask("tidelog_kafka_apis"))
        self._has_metrics_receiver = bool(receivers)
        metering = [each for each in cast("list[object]", receivers) if isinstance(each, MeteringReceiver)]
        self.meters = RequestMeters(metering)
        self._of_broker: tuple[Routes, FetchSessionCache] | None = None

    def connect(self, broker: WireContext, peer: Peer, memory: ReceiveMemory) -> WireConnection:
        """Return the protocol state of a new connection."""
        if self._of_broker is None:
            routes = Routes(
                self._apis,
                broker.request_stages,
                authorization=broker.authorization,
                quotas=broker.client_quotas,
                interception=broker.interception,
                has_metrics_receiver=self._has_metrics_receiver,
                meters=self.meters,
            )
            broker.meters.when_listened(routes.time_requests)
            self._of_broker = routes, fetch_session_cache(broker)
        routes, fetch_sessions = self._of_broker
        authentication = broker.authentication_of(peer.listener_name)
        if authentication is None:
            return KafkaConnection(broker, peer, routes, self._telemetry, memory, fetch_sessions)
        # Not at the top: a broker without SASL never needs it.
        from tidelog.plugins.protocol_kafka.sasl_connection import SaslConnection

        connection = SaslConnection(broker, peer, routes, self._telemetry, memory, fetch_sessions)
        connection.authenticate_by(authentication.session(peer), authentication.max_token_bytes)
        return connection

    def awaits_authentication(self, connection: WireConnection) -> bool:
        """Return whether its client has to prove who it is."""
        from tidelog.plugins.protocol_kafka.sasl_connection import SaslConnection

        return isinstance(connection, SaslConnection) and connection.awaits_authentication

    def statistics(self) -> Mapping[str, int]:
        """Return the counts of the fetch sessions."""
        return {} if self._of_broker is None else self._of_broker[1].statistics()

"""Hooks of the HTTP listener; without one nothing else is imported."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.protocol_http import keys

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.broker import BrokerContext, PluginHooks
    from tidelog.kernel.seams.tasks import BackgroundTask
    from tidelog.kernel.seams.wire import Peer, ReceiveMemory, WireCodec, WireConnection, WireContext
    from tidelog.plugins.protocol_http.service import HttpService

NAME = "http"


class HttpCodec:
    """The wire protocol `http`, with what all connections to one broker share."""

    name = NAME

    def __init__(self) -> None:
        self._service: HttpService | None = None

    def connect(self, broker: WireContext, peer: Peer, memory: ReceiveMemory) -> WireConnection:
        """Return the protocol state of a new connection."""
        from tidelog.plugins.protocol_http.connection import HttpConnection
        from tidelog.plugins.protocol_http.service import HttpService

        if self._service is None:
            self._service = HttpService(broker)
        return HttpConnection(self._service, peer, memory)

    def awaits_authentication(self, connection: WireConnection) -> bool:
        """Return whether the client of a connection has not proven yet who it is."""
        from tidelog.plugins.protocol_http.connection import HttpConnection

        return isinstance(connection, HttpConnection) and connection.awaits_authentication


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the limits of HTTP listeners."""
    return declared_keys(keys)


@hookimpl
def tidelog_wire_codecs(plugins: PluginHooks) -> Iterable[WireCodec]:
    """Offer the codec `http`."""
    return (HttpCodec(),)


@hookimpl
def tidelog_background_tasks(broker: BrokerContext) -> Iterable[BackgroundTask]:
    """Import what a listener needs before it serves, which takes too long for the event loop later.

    Raises:
        ConfigError: h11 or wsproto is not installed.
    """
    if any(listener.codec == NAME for listener in broker.config.served_listeners()):
        try:
            for module in ("connection", "service"):
                import_module(f"tidelog.plugins.protocol_http.{module}")
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"a listener with the codec http needs {error.name}: pip install 'tidelog[http]'"
            ) from error
    return ()


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    """Return the tests of the codec `http`."""
    from tidelog.plugins.protocol_http.conformance import HttpCodecConformance

    return (HttpCodecConformance,)

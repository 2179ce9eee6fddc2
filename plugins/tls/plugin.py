"""Hooks of TLS; without a listener that needs it nothing else is imported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.tls import keys

if TYPE_CHECKING:
    import click

    from tidelog.kernel.config import Config, ConfigKey
    from tidelog.kernel.seams.transport import ListenerTransport, TransportBackend


class Tls:
    """The transport of the security protocol SSL."""

    name = "SSL"

    def create(self, config: Config, listener: str) -> ListenerTransport:
        """Return the TLS of a listener."""
        # Not at the top: OpenSSL and what reads certificates take longer to import than the rest of a broker.
        from tidelog.plugins.tls.listener import TlsListener

        return TlsListener(config, listener)


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys of TLS."""
    return (*declared_keys(keys), *keys.WITHOUT_EFFECT)


@hookimpl
def tidelog_transports() -> Iterable[TransportBackend]:
    """Offer TLS."""
    return (Tls(),)


@hookimpl
def tidelog_commands() -> Iterable[click.Command]:
    """Return the command `certs`."""
    from tidelog.plugins.tls.certs_command import certs

    return [certs]


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    """Return the tests of TLS."""
    from tidelog.plugins.tls.conformance import TlsConformance

    return (TlsConformance,)

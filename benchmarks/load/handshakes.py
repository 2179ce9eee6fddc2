"""New connections over TLS, each closed after its handshake."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import attrs

from benchmarks.procfs import Usage, as_usage

from .meter import Meter
from .raw_connection import tls_context

if TYPE_CHECKING:
    from collections.abc import Callable

# While one client computes or waits, the broker works for another.
_CLIENTS = 4
_TIMEOUT_S = 30.0
_UNENDING_S = 3600.0


@attrs.frozen
class HandshakesSpec:
    """Whole handshakes of TLS 1.3, none resumed, for `seconds`."""

    bootstrap: str
    broker_pid: int
    ca_file: str
    seconds: float


@attrs.frozen
class HandshakeStormSpec:
    """The same until the load is ended; it creates `warm_file` when it begins."""

    bootstrap: str
    broker_pid: int
    ca_file: str
    warm_file: str


@attrs.frozen
class HandshakesResult:
    """How many handshakes were completed."""

    handshakes: int
    usage: Usage = attrs.field(converter=as_usage)


@attrs.define
class _Client:
    """Connects again and again while it is wanted."""

    bootstrap: str
    ca_file: str
    is_wanted: Callable[[], bool]
    handshakes: int = 0
    failure: OSError | None = None

    def run(self) -> None:
        host, _, port = self.bootstrap.rpartition(":")
        context = tls_context(self.ca_file)
        try:
            while self.is_wanted():
                self._shake_hands(context, host, int(port))
        except OSError as error:
            self.failure = error

    def _shake_hands(self, context: ssl.SSLContext, host: str, port: int) -> None:
        plain = socket.create_connection((host, port), timeout=_TIMEOUT_S)
        with context.wrap_socket(plain, server_hostname=host) as connection:
            self.handshakes += 1
            # The broker sees an orderly end, as of a client that has finished.
            with suppress(OSError):
                connection.unwrap().close()


def handshakes(spec: HandshakesSpec) -> HandshakesResult:
    """Count the handshakes of four clients. Raises OSError when the broker refuses one."""
    meter = Meter(spec.broker_pid)
    count = _run(spec.bootstrap, spec.ca_file, lambda: meter.elapsed_s < spec.seconds)
    return HandshakesResult(count, meter.read())


def handshake_storm(spec: HandshakeStormSpec) -> HandshakesResult:
    """Connect until this process is ended. Raises OSError when the broker refuses a handshake."""
    Path(spec.warm_file).touch()
    meter = Meter(spec.broker_pid)
    count = _run(spec.bootstrap, spec.ca_file, lambda: meter.elapsed_s < _UNENDING_S)
    return HandshakesResult(count, meter.read())


def _run(bootstrap: str, ca_file: str, is_wanted: Callable[[], bool]) -> int:
    clients = [_Client(bootstrap, ca_file, is_wanted) for _ in range(_CLIENTS)]
    threads = [Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        if client.failure is not None:
            raise client.failure
    return sum(client.handshakes for client in clients)

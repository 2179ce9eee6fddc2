"""The suite of transports for TLS."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import ClassVar, Final

import pytest
import trio

from tidelog.kernel.testing.transports import TransportConformance
from tidelog.plugins.keystores.authority import Authority
from tidelog.plugins.keystores.stores import certificates_pem

HOST: Final = "localhost"
_VALID: Final = timedelta(days=1)


@cache
def _authority() -> Authority:
    return Authority.create("conformance", _VALID)


class TlsConformance(TransportConformance):
    """A broker whose certificate is signed by an authority, and clients that trust it."""

    settings: ClassVar[Mapping[str, object]] = {}

    @pytest.fixture(autouse=True)
    def certificate(self, tmp_path: Path) -> None:
        """Write the key and certificate of a broker."""
        file = tmp_path / "broker.pem"
        file.write_bytes(_authority().issue("broker", _VALID, (HOST,)).pem())
        type(self).settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)}

    async def client(self, stream: trio.SocketStream) -> trio.abc.Stream:
        """Return a client after its handshake."""
        trusted = certificates_pem(_authority().entry.chain).decode()
        context = ssl.create_default_context(cadata=trusted)
        wrapped = trio.SSLStream(stream, context, server_hostname=HOST, https_compatible=True)
        await wrapped.do_handshake()
        return wrapped

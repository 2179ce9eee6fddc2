"""Certificates for tests: one authority, made once, and what it signs."""

from __future__ import annotations

import ssl
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path

from tidelog.plugins.keystores.authority import Authority
from tidelog.plugins.keystores.stores import KeyEntry, certificates_pem

YEAR = timedelta(days=365)
HOSTS = ("localhost", "127.0.0.1")


@cache
def authority(name: str) -> Authority:
    """An authority of that name."""
    return Authority.create(name, YEAR)


def broker_entry(
    name: str = "broker",
    hosts: tuple[str, ...] = HOSTS,
    valid: timedelta = YEAR,
    signed_by: str = "tests",
) -> KeyEntry:
    """A broker's key and certificate."""
    return authority(signed_by).issue(name, valid, hosts)


def client_entry(name: str, valid: timedelta = YEAR, signed_by: str = "tests") -> KeyEntry:
    """A client's key and certificate."""
    return authority(signed_by).issue(name, valid, organization="Tide")


def written(path: Path, content: bytes) -> str:
    """Write a file; its path."""
    path.write_bytes(content)
    return str(path)


def ca_file(folder: Path, signed_by: str = "tests") -> str:
    """The certificate of the authority in a file."""
    return written(folder / f"ca-{signed_by}.pem", certificates_pem(authority(signed_by).entry.chain))


def tls_settings(folder: Path, entry: KeyEntry | None = None, **more: str) -> dict[str, str]:
    """Settings of a broker with one listener with TLS; underscores in names stand for dots."""
    return {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": written(folder / "broker.pem", (entry or broker_entry()).pem()),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca_file(folder),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def client_context(folder: Path, entry: KeyEntry | None = None, trusted: str = "tests") -> ssl.SSLContext:
    """What a client has that trusts the authority."""
    context = ssl.create_default_context(cafile=ca_file(folder, trusted))
    if entry is not None:
        context.load_cert_chain(written(folder / "client.pem", entry.pem()))
    return context


def hello(context: ssl.SSLContext) -> bytes:
    """The first record of a client (ClientHello)."""
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
    return sent.read()

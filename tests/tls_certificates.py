"""Certificates for tests: one authority, made once, and what it signs."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from hashlib import sha1
from pathlib import Path

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import Certificate

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


def jks(entry: KeyEntry, password: str) -> bytes:
    """A store of Java's format with one private key, whose password is that of the store."""
    secret = password.encode("utf-16-be")
    key = load_pem_private_key(entry.key, None).private_bytes(
        Encoding.DER, PrivateFormat.PKCS8, NoEncryption()
    )
    salt = block = bytes(20)
    stream = b""
    while len(stream) < len(key):
        block = sha1(secret + block).digest()
        stream += block
    hidden = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    octets = salt + hidden + sha1(secret + key).digest()
    inner = bytes.fromhex("300e060a2b060104012a021101010500") + _der(0x04, octets)
    encrypted = _der(0x30, inner)
    content = b"\xfe\xed\xfe\xed" + _numbers(2, 1, 1) + b"\0\1k" + bytes(8)
    content += _numbers(len(encrypted)) + encrypted + _numbers(len(entry.chain))
    for each in entry.chain:
        der = each.public_bytes(Encoding.DER)
        content += b"\0\5X.509" + _numbers(len(der)) + der
    return content + sha1(secret + b"Mighty Aphrodite" + content).digest()


def _numbers(*values: int) -> bytes:
    return b"".join(each.to_bytes(4) for each in values)


def _der(tag: int, value: bytes) -> bytes:
    return bytes([tag, 0x82]) + len(value).to_bytes(2) + value


def p12(entry: KeyEntry | None, password: str, trusted: Sequence[Certificate] = ()) -> bytes:
    """A store of the type PKCS12 with a private key, or with certificates alone."""
    secret = BestAvailableEncryption(password.encode())
    if entry is None:
        return serialize_key_and_certificates(None, None, None, trusted, secret)
    key = load_pem_private_key(entry.key, None)
    return serialize_key_and_certificates(b"k", key, entry.certificate, entry.chain[1:], secret)  # type: ignore[arg-type]


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

"""TLS contexts from keys, certificates, versions and cipher suites, by Kafka's names."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidelog.plugins.keystores.stores import KeyEntry, StoreError, certificates_pem

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from cryptography import x509

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
TLS_1_3_SUITES: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")

_SUITE: Final = re.compile(r"TLS_(?:(?P<exchange>[A-Z0-9_]+?)_)?WITH_(?P<cipher>[A-Z0-9_]+)")


def load_key(context: ssl.SSLContext, entry: KeyEntry) -> None:
    """Use a key and its certificates.

    Raises:
        StoreError: OpenSSL refuses them.
    """
    try:
        with _readable(entry.pem()) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise StoreError(f"is refused by OpenSSL: {error.reason or error}") from error


def load_trusted(context: ssl.SSLContext, certificates: Sequence[x509.Certificate]) -> None:
    """Trust these certificates: as in Java each is an anchor, also one that is not a root."""
    context.load_verify_locations(cadata=certificates_pem(certificates).decode("ascii"))
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN


def restrict_versions(context: ssl.SSLContext, names: Sequence[str]) -> None:
    """Allow these versions alone, keys of `VERSIONS`."""
    versions = sorted(VERSIONS[name] for name in names)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def restrict_ciphers(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    """Allow these cipher suites alone, by their IANA names.

    Which of TLS 1.3 may be used cannot be set in Python: the caller compares them after the
    handshake. Without any, TLS 1.3 is not used, and without others TLS 1.2.

    Raises:
        StoreError: OpenSSL does not know one, or none is left of the versions of the context.
    """
    older = [name for name in suites if name not in TLS_1_3_SUITES]
    for name in older:
        try:
            context.set_ciphers(_openssl_name(name))
        except ssl.SSLError:
            raise StoreError(f"has {name!r}, which is no cipher suite that OpenSSL has here") from None
    if older:
        context.set_ciphers(":".join(map(_openssl_name, older)))
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if len(older) == len(suites):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if context.minimum_version > context.maximum_version:
        raise StoreError("has no suite of the versions of TLS that are enabled")


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name: TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384."""
    found = _SUITE.fullmatch(suite)
    if found is None:
        return suite
    exchange = "" if found["exchange"] == "RSA" else f"{found['exchange']}-"
    cipher = found["cipher"].replace("AES_128_", "AES128_").replace("AES_256_", "AES256_")
    cipher = cipher.replace("_CBC_", "_").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return f"{exchange}{cipher}".replace("_", "-")


@contextmanager
def _readable(content: bytes) -> Generator[str]:
    """Yield a path at which OpenSSL reads the content, which is on no disk where the system can do that."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tidelog-key", os.MFD_CLOEXEC)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name

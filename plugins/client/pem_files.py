"""TLS contexts of clients from PEM files, as the options `ssl_cafile` and its like name them."""

from __future__ import annotations

import ssl
from typing import Protocol


class PemFiles(Protocol):
    """Options that name PEM files: those of connections to brokers, or to ZooKeeper."""

    @property
    def ssl_cafile(self) -> str | None:
        """The authorities that are trusted, None: those of the system."""
        ...

    @property
    def ssl_certfile(self) -> str | None:
        """The client's certificate, None without one."""
        ...

    @property
    def ssl_keyfile(self) -> str | None:
        """Its key, None if that is in the same file."""
        ...

    @property
    def ssl_key_password(self) -> str | None:
        """The password of the key."""
        ...


def new_context(*, checks_hostname: bool) -> ssl.SSLContext:
    """Return a context that trusts no one yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = checks_hostname
    # As in Java each trusted certificate is an anchor, also one that is not a root.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    return context


def context_of_files(files: PemFiles, *, checks_hostname: bool) -> ssl.SSLContext:
    """Return the context that PEM files make; blocks while it reads them.

    Raises:
        OSError: a file cannot be read, or has not what it should have; the text names it.
    """
    context = new_context(checks_hostname=checks_hostname)
    try:
        if files.ssl_cafile is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(files.ssl_cafile)
    except OSError as error:
        raise _named("ssl_cafile", files.ssl_cafile, error) from None
    if files.ssl_certfile is not None:
        password = files.ssl_key_password or ""  # not None, for which OpenSSL would ask at the terminal
        try:
            context.load_cert_chain(files.ssl_certfile, files.ssl_keyfile, password)
        except OSError as error:
            raise _named("ssl_certfile", files.ssl_keyfile or files.ssl_certfile, error) from None
    return context


def _named(setting: str, path: str | None, error: OSError) -> OSError:
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return ConnectionAbortedError(f"{setting}: {path} cannot be used ({reason or error})")

"""TLS of a client's connections: a socket that drivers use like any other one, and its handshake."""

from __future__ import annotations

import math
import select
import socket
import ssl
import time
from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.client.pem_files import context_of_files, new_context

if TYPE_CHECKING:
    from tidelog.plugins.client.security import SecuritySettings
    from tidelog.plugins.keystores.tls_stores import TlsStores

Want: TypeAlias = Literal["read", "write"]

_NOT_NOW: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
_MOST_CONTEXTS: Final = 16
_REASONS: Final = {
    "WRONG_VERSION_NUMBER": "the broker's port does not speak TLS: is it that of a PLAINTEXT listener?",
    "UNEXPECTED_EOF_WHILE_READING": "the broker ended the connection within the TLS handshake",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the broker requires a certificate of the client (ssl_certfile)",
    "TLSV1_ALERT_UNKNOWN_CA": "the broker does not know the authority of the client's certificate",
}


class TlsSocket(ssl.SSLSocket):
    """A connected socket with TLS that does not block.

    Errors of TLS are raised as `ConnectionError` with their reason as the text, and without a cause: their
    numbers are not those of the system.
    """

    def sendmsg(  # type: ignore[override]
        self, buffers: Sequence[memoryview], ancdata: object = (), flags: int = 0, address: object = None
    ) -> int:
        """Encrypt and send what can be sent at once."""
        sent = 0
        try:
            for buffer in buffers:
                rest = buffer
                while rest:
                    count = self.write(rest)
                    sent, rest = sent + count, rest[count:]
        except _NOT_NOW:
            if not sent:
                raise BlockingIOError from None
        except ssl.SSLError as error:
            raise ConnectionAbortedError(failure_in_words(error)) from None
        return sent

    def recv_into(  # type: ignore[override]
        self, buffer: bytearray | memoryview, nbytes: int | None = None, flags: int = 0, /
    ) -> int:
        """Receive and decrypt a record, or what fits."""
        try:
            return cast("int", self.read(len(buffer), buffer))
        except _NOT_NOW:
            raise BlockingIOError from None
        except ssl.SSLError as error:
            raise ConnectionAbortedError(failure_in_words(error)) from None


def failure_in_words(error: ssl.SSLError) -> str:
    """Return why TLS failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is refused: {error.verify_message}"
    reason = error.reason or ""
    _, is_alert, alert = reason.partition("_ALERT_")
    words = f"the broker ended TLS with the alert {alert.lower().replace('_', ' ')}" if is_alert else ""
    return _REASONS.get(reason) or words or f"TLS failed ({reason or error})"


@lru_cache(_MOST_CONTEXTS)
def context_of(settings: SecuritySettings) -> ssl.SSLContext:
    """Return the context of a client; blocks while it reads files.

    Raises:
        OSError: a file cannot be read, or has not what it should have; the text names it.
    """
    context = settings.ssl_context
    if context is None:
        checks_hostname = settings.ssl_endpoint_identification_algorithm != ""
        if settings.ssl_stores is None:
            context = context_of_files(settings, checks_hostname=checks_hostname)
        else:
            context = new_context(checks_hostname=checks_hostname)
            _load_stores(context, settings.ssl_stores)
    context.sslsocket_class = TlsSocket
    return context


def _load_stores(context: ssl.SSLContext, stores: TlsStores) -> None:
    try:
        stores.load_into(context)
    except TidelogError as error:
        raise ConnectionAbortedError(str(error)) from None


def wrapped(sock: socket.socket, host: str, settings: SecuritySettings) -> TlsSocket:
    """Return a connected socket with TLS before its handshake; `sock` is closed with it, or at an error.

    Raises:
        OSError: as `context_of`.
    """
    try:
        sock.setblocking(False)
        made = context_of(settings).wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    except BaseException:
        sock.close()
        raise
    return cast("TlsSocket", made)


def handshake(sock: TlsSocket) -> Generator[Want]:
    """Do the handshake; yield what has to be waited for.

    Raises:
        ConnectionError: it fails; the text says why.
    """
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            yield "read"
        except ssl.SSLWantWriteError:
            yield "write"
        except ssl.SSLError as error:
            raise ConnectionAbortedError(failure_in_words(error)) from None
        else:
            return


def secured(sock: socket.socket, host: str, settings: SecuritySettings, timeout_s: float) -> socket.socket:
    """Return a connected socket with TLS, after its handshake; blocks for that.

    Raises:
        OSError: it cannot be had in time.
    """
    deadline = time.monotonic() + timeout_s
    made = wrapped(sock, host, settings)
    try:
        for want in handshake(made):
            poller = select.poll()
            poller.register(made, select.POLLIN if want == "read" else select.POLLOUT)
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or not poller.poll(math.ceil(remaining_s * 1000)):
                raise TimeoutError(f"no TLS handshake within {timeout_s:.3g} s")
    except BaseException:
        made.close()
        raise
    return made

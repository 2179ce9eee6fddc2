"""TLS of one listener: handshakes within limits, and certificates that are replaced while the broker runs."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import time
from typing import TYPE_CHECKING, Final

import attrs
import trio
from cryptography import x509

from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.requests import ANONYMOUS, Principal
from tidelog.kernel.seams.transport import TransportRefused
from tidelog.plugins.keystores.names import subject_name
from tidelog.plugins.tls.failures import failure_in_words
from tidelog.plugins.tls.handshake_threads import HandshakeThreads
from tidelog.plugins.tls.long_reads import LongReads
from tidelog.plugins.tls.settings import TlsMaterial, TlsSettings
from tidelog.plugins.tls.transport import TlsTransport

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.seams.wire import Peer

_log = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 10.0
"""A peer has so long from its connection to the end of its handshake."""
MOST_HANDSHAKES: Final = 1000
"""So many have been answered and not ended, at most: each holds 60 KB. For a further one the oldest is ended,
as those that are in earnest take milliseconds."""
LEAST_SECONDS: Final = 1.0
"""So long each peer has to answer, however many others come: these wait, while they hold nothing of TLS."""
ALERT_SECONDS: Final = 1.0
FILES_CHECK_SECONDS: Final = 10.0
EXPIRY_CHECK_SECONDS: Final = 24 * 3600.0
EXPIRES_SOON_DAYS: Final = 30
_DAY_SECONDS: Final = 24 * 3600.0
_DISCARDED_BYTES: Final = 16 * 1024
_MOST_DISCARDED_READS: Final = 64
_HANDSHAKE_RECORD: Final = 0x16
_RECORD_HEAD_BYTES: Final = 5
_MOST_RECORD_BYTES: Final = 16 * 1024
"""Of a record that is not encrypted (RFC 8446, section 5.1); OpenSSL refuses longer ones."""
_LENGTH_IN_HEAD: Final = slice(3, 5)


class TlsListener:
    """The transport of a listener with TLS."""

    def __init__(self, config: Config, listener: str) -> None:
        """Read the key and the certificates; blocks for some milliseconds.

        Raises:
            ConfigError: they are missing, or cannot be used.
        """
        self._settings = TlsSettings.of_listener(config, listener)
        self._files = self._settings.files()
        self._use(TlsMaterial.load(self._settings))
        self._reads = LongReads()
        self._handshakes: dict[trio.CancelScope, float] = {}
        """Until when each of those in progress is not ended for another, oldest first."""
        self._one_ended = trio.Event()
        # Half of the processors are for the event loop and what else there is.
        threads = max(1, (os.cpu_count() or 1) // 2)
        self._threads = HandshakeThreads(threads)
        # First steps wait here, before anything of TLS is made for them, and a further step for hardly more
        # than one of them: what has begun ends soon, however many come.
        self._first_steps = trio.CapacityLimiter(threads + 1)

    def _use(self, material: TlsMaterial) -> None:
        material.context.sslsocket_class = TlsTransport
        self._material = material

    async def accept(self, accepted: socket.socket, peer: Peer) -> TlsTransport:
        """Do the handshake.

        Raises:
            TransportRefused: the peer does not speak TLS, has not what it takes, or is too slow.
            OSError: the peer has left.
        """
        handshake = _Handshake(accepted, self._material, self._reads)
        try:
            with trio.move_on_after(HANDSHAKE_SECONDS) as in_time:
                await _wait_for_hello(accepted)
                transport = await self._shake_hands(handshake)
                if transport is not None:
                    return transport
        except TransportRefused:
            await _send_alert(handshake.socket)
            handshake.socket.close()
            raise
        except BaseException:
            handshake.socket.close()
            raise
        handshake.socket.close()
        if in_time.cancelled_caught:
            raise TransportRefused(f"no TLS handshake ended within {HANDSHAKE_SECONDS:g} s")
        raise TransportRefused(f"{MOST_HANDSHAKES} newer TLS handshakes began before its own had ended")

    async def _shake_hands(self, handshake: _Handshake) -> TlsTransport | None:
        """Return the transport, or None once too many others have begun after it."""
        async with self._first_steps:
            await self._make_room()
            # Its hello may have been waited for while the certificate was replaced.
            handshake.material = self._material
            wants = await self._threads.run(handshake.step)
        with trio.CancelScope() as scope:
            self._handshakes[scope] = trio.current_time() + LEAST_SECONDS
            try:
                while wants is not None:
                    await _wait_for(wants, handshake.socket)
                    wants = await self._threads.run(handshake.step)
            finally:
                self._handshakes.pop(scope, None)
                self._one_ended.set()
        return None if scope.cancelled_caught else handshake.transport

    async def _make_room(self) -> None:
        """Wait until fewer are in progress than there may be, or end the oldest when it has had its time."""
        # Those in their first steps, this one too, are answered before they are noted.
        steps = self._first_steps
        while self._handshakes and len(self._handshakes) + steps.borrowed_tokens > MOST_HANDSHAKES:
            oldest, ends = next(iter(self._handshakes.items()))
            if trio.current_time() >= ends:
                del self._handshakes[oldest]
                oldest.cancel()
                return
            if self._one_ended.is_set():
                self._one_ended = trio.Event()
            with trio.move_on_at(ends):
                await self._one_ended.wait()

    async def run(self) -> None:
        """Read files again that have changed, warn of certificates that expire soon, and end long reads."""
        self._reads.start()
        try:
            await self._look_at_files()
        finally:
            self._reads.stop()
            self._threads.close()

    async def _look_at_files(self) -> None:
        warn_at = 0.0
        while True:
            if trio.current_time() >= warn_at:
                warn_at = trio.current_time() + EXPIRY_CHECK_SECONDS
                self._warn_of_expiry()
            await trio.sleep(FILES_CHECK_SECONDS)
            files = await trio.to_thread.run_sync(self._settings.files)
            if files != self._files:
                self._files = files
                self._replace(self._settings)

    def follow(self, config: Config) -> None:
        """Use other stores, or the same ones if their files have changed."""
        settings = TlsSettings.of_listener(config, self._settings.listener)
        if settings != self._settings:
            self._settings, self._files = settings, settings.files()
            self._replace(settings)

    def check(self, config: Config) -> None:
        """Check that the stores can be read, and that their certificate matches the present one.

        Raises:
            ConfigError: says what does not.
        """
        settings = TlsSettings.of_listener(config, self._settings.listener)
        if settings != self._settings:
            self._material.check_replaced_by(TlsMaterial.load(settings), settings)

    def _replace(self, settings: TlsSettings) -> None:
        """Use what is in the stores now, unless it cannot be used."""
        try:
            material = TlsMaterial.load(settings)
            self._material.check_replaced_by(material, settings)
        except ConfigError as error:
            _log.error("%s; the listener keeps the certificate that it has", error)
            return
        self._use(material)
        _log.info(
            "listener %s: its keys and certificates were replaced; the certificate is valid until %s",
            settings.listener,
            material.certificate.not_valid_after_utc.isoformat(),
        )
        self._warn_of_expiry()

    def _warn_of_expiry(self) -> None:
        expires = self._material.certificate.not_valid_after_utc
        days = (expires.timestamp() - time.time()) / _DAY_SECONDS
        if days <= 0:
            _log.error(
                "listener %s: its certificate has expired at %s: no client connects that checks it",
                self._settings.listener,
                expires.isoformat(),
            )
        elif days <= EXPIRES_SOON_DAYS:
            _log.warning(
                "listener %s: its certificate expires in %d days, at %s",
                self._settings.listener,
                days,
                expires.isoformat(),
            )


@attrs.define(eq=False)
class _Handshake:
    """The handshake of a connection, of which nothing of TLS is made before its first step."""

    socket: socket.socket
    """That which was accepted; from the first step on the transport, which has its descriptor."""
    material: TlsMaterial
    reads: LongReads

    @property
    def transport(self) -> TlsTransport:
        """The socket after the first step."""
        if not isinstance(self.socket, TlsTransport):
            raise AssertionError("the context makes transports")
        return self.socket

    def step(self) -> int | None:
        """Continue; return what it waits for, None at its end. Runs in a thread.

        Raises:
            TransportRefused: it has failed; the peer has got an alert.
            OSError: the peer has left.
        """
        if not isinstance(self.socket, TlsTransport):
            self.socket = self.material.context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
            )
        try:
            self.transport.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            return error.errno
        except ssl.SSLError as error:
            raise TransportRefused(failure_in_words(error)) from error
        _check_suite(self.transport, self.material)
        self.transport.accepted(_principal(self.transport, self.material), self.reads)
        return None


async def _wait_for(wants: int, sock: socket.socket) -> None:
    """Wait for what a step has returned."""
    if wants == ssl.SSL_ERROR_WANT_READ:
        await trio.lowlevel.wait_readable(sock)
    else:
        await trio.lowlevel.wait_writable(sock)


async def _send_alert(sock: socket.socket) -> None:
    """Wait until the peer has closed its end, at most for a second.

    What it has sent meanwhile, such as its first request, would have the system reset the connection, and the
    peer would never see the alert with the reason.
    """
    with trio.move_on_after(ALERT_SECONDS, shield=True), contextlib.suppress(OSError):
        if isinstance(sock, TlsTransport):
            sock.drop_tls()
        else:
            sock.shutdown(socket.SHUT_WR)
        for _ in range(_MOST_DISCARDED_READS):
            await trio.lowlevel.wait_readable(sock)
            if not socket.socket.recv(sock, _DISCARDED_BYTES):
                return


async def _wait_for_hello(accepted: socket.socket) -> None:
    """Wait for the first record, before anything of TLS is made for the connection.

    Raises:
        TransportRefused: it does not begin a handshake.
        ConnectionResetError: the peer has left.
    """
    head = await _peek(accepted, 1)
    if not head:
        raise ConnectionResetError("the peer left before its handshake")
    if head[0] != _HANDSHAKE_RECORD:
        raise TransportRefused(
            f"this listener needs TLS, and what the client sends is none (it begins with {head!r}); set "
            "security.protocol=SSL or SASL_SSL in the client, or the port of another listener"
        )
    if len(head) < _RECORD_HEAD_BYTES:
        head = await _peek(accepted, _RECORD_HEAD_BYTES)
    record_bytes = int.from_bytes(head[_LENGTH_IN_HEAD])
    if record_bytes <= _MOST_RECORD_BYTES:
        await _peek(accepted, _RECORD_HEAD_BYTES + record_bytes)


async def _peek(accepted: socket.socket, count: int) -> bytes:
    """Wait until so many bytes have arrived, or no more do; return these, or a few more, which stay unread.

    Where the system does not wait for so many, OpenSSL waits for the rest.
    """
    most = max(count, _RECORD_HEAD_BYTES)
    with contextlib.suppress(BlockingIOError):
        arrived = accepted.recv(most, socket.MSG_PEEK)
        if len(arrived) >= count or not arrived:
            return arrived
    # A peer that sends its record a byte at a time wakes up nothing.
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
    while True:
        await trio.lowlevel.wait_readable(accepted)
        with contextlib.suppress(BlockingIOError):
            arrived = accepted.recv(most, socket.MSG_PEEK)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
            return arrived


def _check_suite(transport: TlsTransport, material: TlsMaterial) -> None:
    cipher, allowed = transport.cipher(), material.suites_of_1_3
    if cipher is not None and allowed is not None and cipher[1] == "TLSv1.3" and cipher[0] not in allowed:
        raise TransportRefused(f"ssl.cipher.suites does not allow {cipher[0]}, which it would have")


def _principal(transport: TlsTransport, material: TlsMaterial) -> Principal:
    """Return the principal of the client's certificate.

    Raises:
        TransportRefused: no mapping rule matches its name, or it has none that can be read.
    """
    encoded = transport.getpeercert(binary_form=True)
    if encoded is None:
        return ANONYMOUS
    try:
        name = subject_name(x509.load_der_x509_certificate(encoded))
    except ValueError as error:
        raise TransportRefused(f"the name in the client's certificate cannot be read: {error}") from error
    mapped = material.rules.name_of(name)
    if mapped is None:
        raise TransportRefused(f"no rule of ssl.principal.mapping.rules matches the name {name}")
    return Principal(ANONYMOUS.type, mapped)

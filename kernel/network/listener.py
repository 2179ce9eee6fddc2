"""A listening socket: binds, and accepts connections within the limits."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Awaitable, Callable

import trio

from tidelog.kernel.config import Config, Listener, ServedListener, keys
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.rate_limit import RateLimit

_log = logging.getLogger(__name__)

OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
PAUSE_WHEN_OUT_OF_RESOURCES_SECONDS = 0.1
COMPLAINT_INTERVAL_SECONDS = 10.0
IPV4_IN_IPV6 = "::ffff:"
ACCEPTED_BEFORE_YIELD = 64
"""Connections accepted in a row before other tasks run."""
SYSTEM_DEFAULT = -1
CLOSED = -1


class BoundListener:
    """A listener of the configuration with its socket."""

    def __init__(self, listener: ServedListener, config: Config) -> None:
        """Bind and listen.

        Raises:
            ConfigError: the address cannot be bound; names it and the reason.
        """
        self.listener = listener
        self._socket = _bind(listener, config)
        self._complaints = RateLimit(COMPLAINT_INTERVAL_SECONDS)
        self.host, self.port = self._socket.getsockname()[:2]

    async def accept_forever(
        self,
        room: Callable[[], Awaitable[None]],
        pause: Callable[[], float],
        handle: Callable[[socket.socket, tuple[str, int]], None],
    ) -> None:
        """Hand every accepted socket, non-blocking, and its address to `handle`, one after each `room`.

        `pause` returns for how many seconds each of them has to wait first. Without descriptors or memory
        the listener waits and tries again.
        """
        accepted = 0
        while True:
            await room()
            # `close` wakes a task that waits for the socket, but not one that waits for room.
            if self._socket.fileno() == CLOSED:
                raise trio.ClosedResourceError
            try:
                connection = self._accept()
            except OSError as error:
                await self._recover_from(error)
                continue
            if connection is None:
                await trio.lowlevel.wait_readable(self._socket)
            else:
                sock, address = connection
                sock.setblocking(False)
                if seconds := pause():
                    await _hold(sock, seconds, room)
                handle(sock, (_plain(address[0]), address[1]))
                accepted += 1
                if accepted % ACCEPTED_BEFORE_YIELD == 0:
                    await trio.lowlevel.checkpoint()

    def _accept(self) -> tuple[socket.socket, tuple[str, int]] | None:
        try:
            return self._socket.accept()
        except BlockingIOError:
            return None

    def close(self) -> None:
        """Stop listening; accepted connections stay open.

        A task in `accept_forever` gets `trio.ClosedResourceError`.
        """
        # Before the close: afterwards its descriptor may be that of another file.
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()

    async def _recover_from(self, error: OSError) -> None:
        """Wait after a failed accept if resources are exhausted; a peer that has left is ignored."""
        if error.errno in OUT_OF_RESOURCES:
            if self._complaints.admit("accept") is not None:
                _log.error("cannot accept connections: %s; raise the limit of open files (ulimit -n)", error)
            await trio.sleep(PAUSE_WHEN_OUT_OF_RESOURCES_SECONDS)
        else:
            _log.debug("an accept failed: %s", error)
            await trio.lowlevel.checkpoint()


async def _hold(sock: socket.socket, seconds: float, room: Callable[[], Awaitable[None]]) -> None:
    """Wait, then for room again; close the socket if that is cancelled."""
    try:
        await trio.sleep(seconds)
        await room()
    except BaseException:
        sock.close()
        raise


def _plain(host: str) -> str:
    """Return an IPv4 address in dotted form, also when it came in by a socket for IPv6."""
    return host.removeprefix(IPV4_IN_IPV6) if "." in host else host


def _bind(listener: Listener, config: Config) -> socket.socket:
    family, address = _resolve(listener)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # A restart finds connections of the process before it in TIME_WAIT, which would refuse the port.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
        # As in Kafka: a machine that vanished is noticed in the end, also where idle clients are not closed.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if family == socket.AF_INET6:
            # Only the listener on every address takes IPv4, too: two listeners may share a port if their
            # families differ.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not listener.host else 1)
        _set_buffer(sock, socket.SO_RCVBUF, config[keys.SOCKET_RECEIVE_BUFFER_BYTES])
        _set_buffer(sock, socket.SO_SNDBUF, config[keys.SOCKET_SEND_BUFFER_BYTES])
        sock.bind(address)
        sock.listen(config[keys.SOCKET_LISTEN_BACKLOG_SIZE])
    except OSError as error:
        sock.close()
        raise ConfigError(
            f"listener {listener.name} cannot use {listener.host or '*'}:{listener.port}: {error.strerror}; "
            "is another broker running there? Choose another port in `listeners`"
        ) from error
    return sock


def _resolve(listener: Listener) -> tuple[int, tuple[object, ...]]:
    """Address family and socket address; an empty host is every address, IPv6 included where there is any."""
    if not listener.host:
        return _every_address(listener.port)
    # As bytes: text makes Python import its codec for international names first.
    host = listener.host.encode() if listener.host.isascii() else listener.host
    try:
        found = socket.getaddrinfo(host, listener.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(
            f"listener {listener.name}: host {listener.host!r} is unknown: {error.strerror}"
        ) from error
    family, _, _, _, address = found[0]
    return family, address


def _every_address(port: int) -> tuple[int, tuple[object, ...]]:
    if socket.has_dualstack_ipv6():
        return socket.AF_INET6, ("::", port)
    return socket.AF_INET, ("0.0.0.0", port)  # noqa: S104 - what an empty host in `listeners` means


def _set_buffer(sock: socket.socket, option: int, size_bytes: int) -> None:
    if size_bytes != SYSTEM_DEFAULT:
        sock.setsockopt(socket.SOL_SOCKET, option, size_bytes)

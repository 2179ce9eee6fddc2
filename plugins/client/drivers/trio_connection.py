"""Connection shared by any number of trio tasks; the tasks that wait do the sending and receiving.

There is no background task: one of the tasks that wait for a response receives for all of them, and a task
that could not send everything sends the rest when the socket is writable. A cancelled task leaves the
connection usable for the others; its responses are dropped when they arrive.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Any

import trio

from tidelog.plugins.client.drivers.link import Link, reason_of
from tidelog.plugins.client.errors import BrokerUnreachable, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.plugins.client.cluster import Address
    from tidelog.plugins.client.security import SecuritySettings
    from tidelog.plugins.client.settings import ClientSettings


async def open_socket(address: Address, security: SecuritySettings) -> socket.socket:
    """Connect, with a TLS handshake if that is wanted.

    Raises:
        OSError: it fails.
    """
    stream = await trio.open_tcp_stream(address.host, address.port)
    sock = socket.socket(fileno=stream.socket.detach())
    if not security.uses_tls:
        return sock
    # OpenSSL takes longer to import than all else of a client.
    from tidelog.plugins.client.drivers.tls import handshake, wrapped

    made = wrapped(sock, address.host, security)
    try:
        for want in handshake(made):
            if want == "read":
                await trio.lowlevel.wait_readable(made)
            else:
                await trio.lowlevel.wait_writable(made)
    except BaseException:
        made.close()
        raise
    return made


class TrioConnection:
    """Connection with negotiated versions; created by `open`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._answers: dict[int, Any] = {}
        self._expected: set[int] = set()
        self._sending = trio.Lock()
        self._receiving = trio.Lock()

    @classmethod
    async def open(cls, address: Address, settings: ClientSettings) -> TrioConnection:
        """Connect and negotiate versions; the caller sets the timeout.

        Raises:
            BrokerUnreachable: the connection is refused, or the peer closes it.
            ClientError: the peer is not a broker with supported versions.
        """
        try:
            sock = await open_socket(address, settings.security)
        except OSError as error:
            raise BrokerUnreachable([(address, reason_of(error))]) from error
        connection = cls(Link(sock, address, settings))
        try:
            await connection._until(lambda: connection._link.wire.ready)
            connection._raise_failure()
        except BaseException as error:
            connection.close()
            if isinstance(error, ClientError) and error.retriable:
                raise BrokerUnreachable([(address, str(error))]) from error
            raise
        return connection

    @property
    def is_usable(self) -> bool:
        """Return whether requests can be sent."""
        return self._link.is_usable

    @property
    def peer(self) -> str:
        """Return the broker's address."""
        return self._link.wire.peer

    @property
    def waiting_for(self) -> str:
        """Return the API and version of the next expected response."""
        return self._link.wire.waiting_for

    async def exchange(self, requests: Sequence[object], at_most: int | None) -> list[Any]:
        """Send requests and return their responses, None for a request without one.

        The caller sets the timeout.

        Raises:
            ClientError: see `tidelog.plugins.client.errors`.
        """
        correlation_ids = self._link.wire.send(*requests, at_most=at_most)
        expected = {each for each in correlation_ids if each is not None}
        self._expected |= expected
        try:
            await self._until(lambda: expected <= self._answers.keys())
            if not expected <= self._answers.keys():
                self._raise_failure()
            return [None if each is None else self._answers[each] for each in correlation_ids]
        finally:
            self._expected -= expected
            for each in expected:
                self._answers.pop(each, None)

    def close(self) -> None:
        """Close the socket; tasks that wait for a response get `BrokerClosed`."""
        # Before the descriptor is closed: what waits for it must not wait for another file that gets its
        # number.
        trio.lowlevel.notify_closing(self._link.socket)
        self._link.close()

    def _raise_failure(self) -> None:
        if self._link.wire.failure is not None:
            raise self._link.wire.failure

    async def _until(self, done: Callable[[], bool]) -> None:
        """Send all outgoing bytes, and receive until `done` or until the connection fails."""
        self._link.send()
        if not self._link.has_outgoing:
            await self._receive_until(done)
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_rest)
            await self._receive_until(done)
            if self._link.wire.failure is not None:
                nursery.cancel_scope.cancel()

    async def _send_rest(self) -> None:
        async with self._sending:
            with contextlib.suppress(trio.ClosedResourceError):
                while self._link.has_outgoing:
                    await trio.lowlevel.wait_writable(self._link.socket)
                    self._link.send()

    async def _receive_until(self, done: Callable[[], bool]) -> None:
        await trio.lowlevel.checkpoint()
        while not (done() or self._link.wire.failure):
            async with self._receiving:
                # Another task may have received the response while this one waited for its turn.
                if not (done() or self._link.wire.failure):
                    await self._receive_once()

    async def _receive_once(self) -> None:
        with contextlib.suppress(trio.ClosedResourceError):
            await trio.lowlevel.wait_readable(self._link.socket)
            self._link.receive()
        with contextlib.suppress(ClientError):  # it stays in `wire.failure` for every task that waits
            while (response := self._link.wire.next_response()) is not None:
                if response.correlation_id in self._expected:
                    self._answers[response.correlation_id] = response.message
        # A response may have queued a request: ApiVersions again, in a lower version.
        self._link.send()

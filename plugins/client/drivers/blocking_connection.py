"""Blocking connection: waits with `poll`, always up to a deadline of `time.monotonic`."""

from __future__ import annotations

import math
import select
import time
from typing import TYPE_CHECKING, Any

from tidelog.plugins.client.drivers.link import Link, connected_socket, reason_of
from tidelog.plugins.client.errors import BrokerUnreachable, ClientError, RequestTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.plugins.client.cluster import Address
    from tidelog.plugins.client.settings import ClientSettings


class BlockingConnection:
    """Connection with negotiated versions; any error other than one of versions closes it."""

    def __init__(self, address: Address, settings: ClientSettings, timeout_s: float) -> None:
        """Connect and negotiate versions.

        Raises:
            BrokerUnreachable: the connection is refused, or the peer does not answer.
            ClientError: the peer is not a broker with supported versions.
        """
        deadline = time.monotonic() + timeout_s
        try:
            sock = connected_socket(address, settings.security, max(timeout_s, 0.001))
        except OSError as error:
            raise BrokerUnreachable([(address, reason_of(error))]) from error
        self._link = Link(sock, address, settings)
        self._answers: dict[int, Any] = {}
        try:
            self._until(lambda: self._link.wire.ready, deadline, timeout_s)
        except BaseException as error:
            self.close()
            if isinstance(error, ClientError) and error.retriable:
                raise BrokerUnreachable([(address, str(error))]) from error
            raise

    @property
    def is_usable(self) -> bool:
        """Return whether requests can be sent."""
        return self._link.is_usable

    def exchange(self, requests: Sequence[object], at_most: int | None, timeout_s: float) -> list[Any]:
        """Send requests and return their responses, None for a request without one.

        Raises:
            ClientError: see `tidelog.plugins.client.errors`.
        """
        self._answers.clear()
        deadline = time.monotonic() + timeout_s
        correlation_ids = self._link.wire.send(*requests, at_most=at_most)
        expected = [each for each in correlation_ids if each is not None]
        try:
            self._until(lambda: len(self._answers) == len(expected), deadline, timeout_s)
        except BaseException:
            # Responses may still come, and the next exchange would count them among its own.
            self.close()
            raise
        return [None if each is None else self._answers[each] for each in correlation_ids]

    def close(self) -> None:
        """Close the socket."""
        self._link.close()

    def _until(self, done: Callable[[], bool], deadline: float, timeout_s: float) -> None:
        """Send all outgoing bytes, and receive until `done`."""
        link = self._link
        while True:
            link.send()
            while (response := link.wire.next_response()) is not None:
                self._answers[response.correlation_id] = response.message
            if done() and not link.has_outgoing:
                return
            self._wait(deadline, timeout_s)
            link.receive()

    def _wait(self, deadline: float, timeout_s: float) -> None:
        link = self._link
        poller = select.poll()
        poller.register(link.socket, select.POLLIN | (select.POLLOUT if link.has_outgoing else 0))
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0 or not poller.poll(math.ceil(remaining_s * 1000)):
            raise RequestTimedOut(f"{link.wire.waiting_for} by {link.wire.peer}", timeout_s)

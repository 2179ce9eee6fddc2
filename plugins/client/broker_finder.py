"""Finds the brokers of a cluster in ZooKeeper, and follows those that come and go later."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.security import PLAINTEXT
from tidelog.plugins.zookeeper.broker_registry import registered_brokers
from tidelog.plugins.zookeeper.errors import Unavailable
from tidelog.plugins.zookeeper.kazoo_blocking import run_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.client.zookeeper_ensemble import ZooKeeperEnsemble
    from tidelog.plugins.zookeeper.kazoo_blocking import BlockingZooKeeper

_LOG: Final = logging.getLogger(__name__)
RETRY_S: Final = 1.0
"""Pause after the registry could not be read."""


class BrokerFinder:
    """Calls `found` with the addresses of all registered brokers, at first and when they change.

    Attributes:
        problem: why none are known, empty once there are some
    """

    def __init__(
        self, engine: Engine, ensemble: ZooKeeperEnsemble, found: Callable[[Sequence[Address]], None]
    ) -> None:
        self._engine = engine
        self._ensemble = ensemble
        self._found = found
        self._protocol = engine.session.settings.security.security_protocol
        self._zookeeper: BlockingZooKeeper | None = None
        self._is_reading = False
        self._is_stale = False
        self.problem = f"ZooKeeper at {ensemble.connect} has not answered yet"

    def start(self) -> None:
        """Connect, unless that is done."""
        if self._zookeeper is None and not self._engine.is_closed:
            self._zookeeper = self._ensemble.client(self._engine)
            self._zookeeper.start(self._connection_changed)

    def close(self) -> None:
        """End the session."""
        if self._zookeeper is not None:
            self._zookeeper.stop(_nothing)

    def _connection_changed(self) -> None:
        zookeeper = self._zookeeper
        if zookeeper is None or self._engine.is_closed:
            return
        if zookeeper.session_id:
            # Also in the same session: a change meanwhile may have been missed.
            self._read()
        else:
            self.problem = f"ZooKeeper at {self._ensemble.connect}: {zookeeper.problem}"

    def _read(self) -> None:
        zookeeper = self._zookeeper
        if zookeeper is None or self._engine.is_closed:
            return
        self._is_stale = True
        if self._is_reading:
            return
        self._is_reading, self._is_stale = True, False
        self._engine.io.run_in_thread(
            lambda: run_blocking(lambda: registered_brokers(zookeeper, self._read, self._protocol)),
            self._finish,
        )

    def _finish(self, outcome: Sequence[tuple[str, int]] | Exception) -> None:
        self._is_reading = False
        if self._engine.is_closed:
            return
        if isinstance(outcome, Exception):
            self.problem = str(outcome)
            _LOG.log(
                logging.DEBUG if isinstance(outcome, Unavailable) else logging.WARNING,
                "brokers cannot be found in ZooKeeper: %s",
                outcome,
            )
            self._read_later()
            return
        if outcome:
            self.problem = ""
            self._found([Address(host, port) for host, port in outcome])
        else:
            listener = "" if self._protocol == PLAINTEXT else f" with a listener for {self._protocol}"
            self.problem = f"no broker{listener} is registered in ZooKeeper at {self._ensemble.connect}"
            self._read_later()
        if self._is_stale:
            self._read()

    def _read_later(self) -> None:
        """Read again after a pause: not all that may change is watched."""
        self._engine.call_at(self._engine.clock() + RETRY_S, self._read)


def _nothing() -> None:
    """Do nothing when the session has ended."""

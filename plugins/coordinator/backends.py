"""The backends that the configuration key `coordinator` can name: the same services over two kinds of log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker
    from tidelog.kernel.coordination.backend import Coordinator


@attrs.frozen
class ClassicBackend:
    """Keeps its state in internal topics, as Apache Kafka does."""

    name: str = "classic"

    def create(self, broker: Broker) -> Coordinator:
        """A coordinator that is not open yet."""
        from tidelog.plugins.coordinator.log.topics import group_log, transaction_log
        from tidelog.plugins.coordinator.service import CoordinatorService

        return CoordinatorService(broker, group_log(broker), transaction_log(broker))


@attrs.frozen
class MemoryBackend:
    """Keeps its state in memory: everything is forgotten when the broker stops."""

    name: str = "memory"

    def create(self, broker: Broker) -> Coordinator:
        """A coordinator that is not open yet."""
        from tidelog.plugins.coordinator.log.forgetful_log import ForgetfulLog
        from tidelog.plugins.coordinator.service import CoordinatorService

        return CoordinatorService(broker, ForgetfulLog(), ForgetfulLog())

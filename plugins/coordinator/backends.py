"""The backends that the configuration key `coordinator` can name: the same services over two kinds of log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.coordinator.consumer_groups import keys as consumer_group_keys
from tidelog.plugins.coordinator.lazy import LazyCoordinator

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.backend import Coordinator, CoordinatorContext
    from tidelog.plugins.coordinator.service import CoordinatorService


class ClassicBackend:
    """The backend `classic`: state is in internal topics, as in Apache Kafka."""

    name = "classic"

    def create(self, broker: CoordinatorContext) -> Coordinator:
        """Return a coordinator that is not open yet."""
        from tidelog.plugins.coordinator.runtime.topic_log import group_log, has_state, transaction_log

        groups, transactions = group_log(broker), transaction_log(broker)

        def make() -> CoordinatorService:
            from tidelog.plugins.coordinator.service import CoordinatorService

            return CoordinatorService(broker, groups, transactions)

        _check(broker)
        # Its services are cached properties, which pyright does not take for properties.
        return LazyCoordinator(broker.config, make, lambda: has_state(broker))  # pyright: ignore[reportReturnType]


class MemoryCoordinatorBackend:
    """The backend `memory`: state is lost when the broker stops."""

    name = "memory"

    def create(self, broker: CoordinatorContext) -> Coordinator:
        """Return a coordinator that is not open yet."""

        def make() -> CoordinatorService:
            from tidelog.plugins.coordinator.runtime.state_log import NullStateLog
            from tidelog.plugins.coordinator.service import CoordinatorService

            return CoordinatorService(broker, NullStateLog(), NullStateLog())

        _check(broker)
        return LazyCoordinator(broker.config, make, lambda: False)  # pyright: ignore[reportReturnType]


def _check(broker: CoordinatorContext) -> None:
    """Check the configuration at the start, not at the first request; raises ConfigError."""
    consumer_group_keys.check(broker.config, broker.partition_assignors)

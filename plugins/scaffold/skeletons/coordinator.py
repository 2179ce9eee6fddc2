"""A coordinator of groups and transactions, here the one in memory; `create` is where to return your own."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.kernel import hookimpl
from tidelog.kernel.seams.coordination.backend import Coordinator, CoordinatorBackend, CoordinatorContext

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""


class SkeletonCoordinatorBackend:
    """What the key `coordinator` chooses."""

    name = "skeleton"

    def create(self, broker: CoordinatorContext) -> Coordinator:
        """Return a coordinator that is not open yet."""
        return broker.coordinator_backend("memory").create(broker)


@hookimpl
def tidelog_group_coordinators() -> Iterable[CoordinatorBackend]:
    """Offer the coordinator."""
    return [SkeletonCoordinatorBackend()]

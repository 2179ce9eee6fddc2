"""A kind of coordinator, as a plugin offers it, and its context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

from tidelog.kernel.seams.broker import BrokerContext

if TYPE_CHECKING:
    from tidelog.kernel.metadata import ImageChange
    from tidelog.kernel.seams.coordination.assignors import PartitionAssignor
    from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupService
    from tidelog.kernel.seams.coordination.groups import GroupService
    from tidelog.kernel.seams.coordination.offsets import OffsetService
    from tidelog.kernel.seams.coordination.transactions import TransactionService
    from tidelog.kernel.seams.tasks import BackgroundTask


@attrs.define
class CoordinatorLoadCounts:
    """Counts of partitions, records and bytes; `milliseconds` is how long it has taken, once it is done."""

    partitions: int = 0
    loaded_partitions: int = 0
    records: int = 0
    bytes: int = 0
    milliseconds: int = 0

    @property
    def done(self) -> bool:
        """Whether everything that had to be read was read."""
        return self.loaded_partitions == self.partitions


class Coordinator(Protocol):
    """A broker's coordinator; each service has a module of its own beside this one."""

    @property
    def groups(self) -> GroupService:
        """Groups of the classic protocol, and what tools need of all groups."""
        ...

    @property
    def consumer_groups(self) -> ConsumerGroupService:
        """Groups of the consumer protocol."""
        ...

    @property
    def offsets(self) -> OffsetService:
        """Offsets that groups commit."""
        ...

    @property
    def transactions(self) -> TransactionService:
        """Transactions of producers."""
        ...

    def import_services(self) -> None:
        """Import what the services consist of, which takes long: called in a thread before their first use.

        Cheap afterwards.
        """
        ...

    async def open(self) -> None:
        """Start loading the state; return soon.

        Until that is done requests raise CoordinatorLoadInProgress. Topics are loaded, jobs can be started,
        and the broker does not serve yet.
        """
        ...

    async def follow(self, change: ImageChange) -> None:
        """Load and drop state, as partitions of internal topics have come, gone, or changed their leader.

        The partitions themselves have followed before; it is open.
        """
        ...

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """Return the coordinator's work that runs as long as the broker does; it is open."""
        ...

    def release_waiters(self) -> None:
        """Answer all waiting requests, and later ones at once: the broker stops."""
        ...

    async def close(self) -> None:
        """Stop writing; topics are still open."""
        ...

    async def expire(self) -> None:
        """Remove expired offsets and transactional ids, and abort transactions beyond their timeout.

        The coordinator does this periodically itself.
        """
        ...

    async def prepare_groups(self) -> None:
        """Create what groups need before their first request, such as an internal topic; cheap afterwards.

        Raises:
            BrokerError: it cannot be created; clients get CoordinatorNotAvailable.
        """
        ...

    async def prepare_transactions(self) -> None:
        """Create what transactions need before their first request; raises as `prepare_groups`."""
        ...

    @property
    def loading(self) -> Mapping[str, CoordinatorLoadCounts]:
        """The progress of loading `groups` and `transactions`."""
        ...

    def partition_for_group(self, group_id: str) -> int:
        """Return the number of the partition that a group's state is in."""
        ...

    def partition_for_transactional_id(self, transactional_id: str) -> int:
        """Return the number of the partition that a transactional id's state is in."""
        ...


class CoordinatorContext(BrokerContext, Protocol):
    """What a coordinator may use of its broker, from `CoordinatorBackend.create` on.

    Topics are loaded, and background work can be started, once the coordinator is opened.
    """

    def coordinator_backend(self, name: str) -> CoordinatorBackend:
        """Return another kind of coordinator, for one that wraps it.

        Raises:
            PluginError: there is none of that name.
        """
        ...

    @property
    def partition_assignors(self) -> Mapping[str, PartitionAssignor]:
        """The assignors that plugins offer, by name."""
        ...

    async def allocate_producer_id(self) -> int:
        """Return a producer id that was never returned before.

        Raises:
            StorageError: the disk refused to record the allocation.
        """
        ...


class CoordinatorBackend(Protocol):
    """A kind of coordinator, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name that the key `coordinator` chooses it by."""
        ...

    def create(self, broker: CoordinatorContext) -> Coordinator:
        """Return a coordinator that is not open yet."""
        ...

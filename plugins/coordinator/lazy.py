"""A coordinator that is created on demand, or at the start if there is state to load.

Its background tasks are handed over when the broker starts, and wait until its services are created.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import trio

from tidelog.kernel.seams.tasks import BackgroundTask, Lifespan, LifespanTask, PeriodicTask
from tidelog.plugins.coordinator import keys

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.metadata import ImageChange
    from tidelog.kernel.seams.coordination.backend import CoordinatorLoadCounts
    from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupService
    from tidelog.kernel.seams.coordination.groups import GroupService
    from tidelog.kernel.seams.coordination.offsets import OffsetService
    from tidelog.kernel.seams.coordination.transactions import TransactionService
    from tidelog.plugins.coordinator.service import CoordinatorService


SERVICE = "tidelog.plugins.coordinator.service"

COMPLETION_INTERVAL_MS: Final = 200
"""How soon missing markers of transactions are tried again; without any this costs next to nothing."""


class LazyCoordinator:
    """A `Coordinator` that creates the service with `make` when it is first used."""

    def __init__(
        self, config: Config, make: Callable[[], CoordinatorService], remembers: Callable[[], bool]
    ) -> None:
        """`remembers()` returns, once topics are loaded, whether there is state to load."""
        self._config = config
        self._make = make
        self._remembers = remembers
        self._released = False
        self._created = trio.Event()

    @cached_property
    def _service(self) -> CoordinatorService:
        service = self._make()
        service.begin()
        self._created.set()
        if self._released:
            service.release_waiters()
        return service

    @property
    def _made(self) -> CoordinatorService | None:
        return self._service if "_service" in self.__dict__ else None

    @cached_property
    def groups(self) -> GroupService:
        """The service of classic groups, and of tools for all groups."""
        return self._service.groups

    @cached_property
    def consumer_groups(self) -> ConsumerGroupService:
        """The service of consumer groups."""
        return self._service.consumer_groups

    @cached_property
    def offsets(self) -> OffsetService:
        """The service of committed offsets."""
        return self._service.offsets

    @cached_property
    def transactions(self) -> TransactionService:
        """The service of transactions."""
        return self._service.transactions

    @property
    def loading(self) -> Mapping[str, CoordinatorLoadCounts]:
        """Return how far state has been loaded."""
        return self._service.loading

    async def open(self) -> None:
        """Begin to load state, if there is any."""
        if self._remembers():
            _ = self._service

    async def follow(self, change: ImageChange) -> None:
        """Apply a change of topics and leadership to the state."""
        if self._made is not None:
            self._made.follow(change)

    def background_tasks(self) -> Sequence[BackgroundTask]:
        """Return the tasks of all services; none of them runs before these are created."""
        config = self._config
        abort_ms = config[keys.ABORT_TIMED_OUT_INTERVAL_MS]
        remove_ms = config[keys.REMOVE_EXPIRED_INTERVAL_MS]
        offsets_ms = config[keys.OFFSETS_RETENTION_CHECK_INTERVAL_MS]
        return (
            LifespanTask("group-deadlines", self._serve_deadlines),
            self._repeat(
                "transaction-completion", lambda made: made.transactions.complete(), COMPLETION_INTERVAL_MS
            ),
            self._repeat(
                "transaction-abort",
                lambda made: made.transactions.timeouts.abort_overdue(),
                abort_ms,
                abort_ms,
            ),
            self._repeat(
                "transactional-id-expiration",
                lambda made: made.transactions.timeouts.remove_expired(),
                remove_ms,
                remove_ms,
            ),
            self._repeat("offset-expiration", lambda made: made.expiry.expire(), offsets_ms, offsets_ms),
        )

    def _repeat(
        self,
        name: str,
        run: Callable[[CoordinatorService], Awaitable[None]],
        interval_ms: int,
        initial_delay_ms: int = 0,
    ) -> PeriodicTask:
        return PeriodicTask(
            name, lambda: run(self._service), interval_ms, initial_delay_ms, after=self._created.wait
        )

    async def _serve_deadlines(self, lifespan: Lifespan) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve_deadlines_once_created)
            lifespan.ready()
            await lifespan.wait_stopping()
            nursery.cancel_scope.cancel()

    async def _serve_deadlines_once_created(self) -> None:
        await self._created.wait()
        await self._service.group_runtime.deadlines.run()

    def release_waiters(self) -> None:
        """Answer every request that waits: the broker stops."""
        self._released = True
        if self._made is not None:
            self._made.release_waiters()

    async def close(self) -> None:
        """Stop writing."""
        if self._made is not None:
            await self._made.close()

    async def expire(self) -> None:
        """Remove what has expired."""
        await self._service.expire()

    async def prepare_groups(self) -> None:
        """Create what groups need before their first request."""
        await self._import()
        await self._service.group_runtime.log.ensure()

    async def prepare_transactions(self) -> None:
        """Create what transactions need before their first request."""
        await self._import()
        await self._service.transaction_runtime.log.ensure()

    async def _import(self) -> None:
        """Import the service in a thread: that takes some hundredths of a second."""
        if self._made is None:
            await trio.to_thread.run_sync(self.import_services)

    def import_services(self) -> None:
        """Import the service."""
        importlib.import_module(SERVICE)

    def partition_for_group(self, group_id: str) -> int:
        """Return the partition of a group's state."""
        return self._service.group_runtime.partition_for(group_id)

    def partition_for_transactional_id(self, transactional_id: str) -> int:
        """Return the partition of a transactional id's state."""
        return self._service.transaction_runtime.partition_for(transactional_id)

"""A coordinator that is created on demand, or at the start if there is state to load."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.backend import LoadProgress
    from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupService
    from tidelog.kernel.seams.coordination.groups import GroupService
    from tidelog.kernel.seams.coordination.offsets import OffsetService
    from tidelog.kernel.seams.coordination.transactions import TransactionService
    from tidelog.plugins.coordinator.service import CoordinatorService


SERVICE = "tidelog.plugins.coordinator.service"


class LazyCoordinator:
    """A `Coordinator` that creates the service with `make` when it is first used."""

    def __init__(self, make: Callable[[], CoordinatorService], remembers: Callable[[], bool]) -> None:
        """`remembers()` returns, once topics are loaded, whether there is state to load."""
        self._make = make
        self._remembers = remembers
        self._released = False

    @cached_property
    def _service(self) -> CoordinatorService:
        service = self._make()
        service.begin()
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
    def loading(self) -> Mapping[str, LoadProgress]:
        """How far state has been loaded."""
        return self._service.loading

    async def open(self) -> None:
        """Begin to load state, if there is any."""
        if self._remembers():
            _ = self._service

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
        await self._service.prepare_groups()

    async def prepare_transactions(self) -> None:
        """Create what transactions need before their first request."""
        await self._import()
        await self._service.prepare_transactions()

    async def _import(self) -> None:
        """Import the service in a thread: that takes some hundredths of a second."""
        if self._made is None:
            await trio.to_thread.run_sync(partial(importlib.import_module, SERVICE))

    def partition_for_group(self, group_id: str) -> int:
        """Return the partition of a group's state."""
        return self._service.partition_for_group(group_id)

    def partition_for_transactional_id(self, transactional_id: str) -> int:
        """Return the partition of a transactional id's state."""
        return self._service.partition_for_transactional_id(transactional_id)

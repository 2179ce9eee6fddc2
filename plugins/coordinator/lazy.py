"""A coordinator that costs a start nothing: made when there is something to bring back, or somebody asks."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupService
    from tidelog.kernel.seams.coordination.groups import GroupService
    from tidelog.kernel.seams.coordination.loading import LoadProgress
    from tidelog.kernel.seams.coordination.offsets import OffsetService
    from tidelog.kernel.seams.coordination.transactions import TransactionService
    from tidelog.plugins.coordinator.service import CoordinatorService


SERVICE = "tidelog.plugins.coordinator.service"


class LazyCoordinator:
    """Stands for the service that `make` makes. See `Coordinator` for what the methods do."""

    def __init__(self, make: Callable[[], CoordinatorService], remembers: Callable[[], bool]) -> None:
        """`remembers()` tells, once topics are loaded, whether there is something to bring back."""
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
        """See `Coordinator`."""
        return self._service.groups

    @cached_property
    def consumer_groups(self) -> ConsumerGroupService:
        """See `Coordinator`."""
        return self._service.consumer_groups

    @cached_property
    def offsets(self) -> OffsetService:
        """See `Coordinator`."""
        return self._service.offsets

    @cached_property
    def transactions(self) -> TransactionService:
        """See `Coordinator`."""
        return self._service.transactions

    @property
    def loading(self) -> Mapping[str, LoadProgress]:
        """See `Coordinator`."""
        return self._service.loading

    async def open(self) -> None:
        """See `Coordinator`."""
        if self._remembers():
            _ = self._service

    def release_waiters(self) -> None:
        """See `Coordinator`."""
        self._released = True
        if self._made is not None:
            self._made.release_waiters()

    async def close(self) -> None:
        """See `Coordinator`."""
        if self._made is not None:
            await self._made.close()

    async def expire(self) -> None:
        """See `Coordinator`."""
        await self._service.expire()

    async def prepare_groups(self) -> None:
        """See `Coordinator`."""
        await self._import()
        await self._service.prepare_groups()

    async def prepare_transactions(self) -> None:
        """See `Coordinator`."""
        await self._import()
        await self._service.prepare_transactions()

    async def _import(self) -> None:
        """In a thread: what all services need takes some hundredths of a second to import."""
        if self._made is None:
            await trio.to_thread.run_sync(partial(importlib.import_module, SERVICE))

    def partition_for_group(self, group_id: str) -> int:
        """See `Coordinator`."""
        return self._service.partition_for_group(group_id)

    def partition_for_transactional_id(self, transactional_id: str) -> int:
        """See `Coordinator`."""
        return self._service.partition_for_transactional_id(transactional_id)

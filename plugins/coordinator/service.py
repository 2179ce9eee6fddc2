"""The coordinator, put together: which services there are and what they share. Nothing is decided here."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from tidelog.plugins.coordinator.hashing import java_hash

if TYPE_CHECKING:
    from tidelog.kernel.broker import Broker
    from tidelog.plugins.coordinator.log import StateLog

REMEMBERED_HASHES = 100_000


class CoordinatorService:
    """All services over one log for groups and one for transactions."""

    def __init__(self, broker: Broker, group_log: StateLog, transaction_log: StateLog) -> None:
        self.group_log = group_log
        self.transaction_log = transaction_log
        self._hash = lru_cache(REMEMBERED_HASHES)(java_hash)

    async def open(self) -> None:
        """See `Coordinator`."""

    async def close(self) -> None:
        """See `Coordinator`."""
        self.transaction_log.close()
        self.group_log.close()

    async def prepare_groups(self) -> None:
        """See `Coordinator`."""
        await self.group_log.ensure()

    async def prepare_transactions(self) -> None:
        """See `Coordinator`."""
        await self.transaction_log.ensure()

    def partition_for_group(self, group_id: str) -> int:
        """See `Coordinator`."""
        return self._hash(group_id) % self.group_log.partition_count

    def partition_for_transactional_id(self, transactional_id: str) -> int:
        """See `Coordinator`."""
        return self._hash(transactional_id) % self.transaction_log.partition_count

"""Producer ids, allocated in blocks that the metadata store has made durable."""

from __future__ import annotations

import trio

from tidelog.kernel.errors import StorageError
from tidelog.kernel.seams.metadata import MetadataStore

BLOCK_SIZE = 1000
"""Ids per block, as in Kafka: one durable write serves a thousand producers."""


class ProducerIds:
    """Ids that no other producer of this cluster ever had."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._block = iter(range(0))
        self._lock = trio.Lock()

    async def allocate(self) -> int:
        """Return a producer id that was never returned before."""
        async with self._lock:
            producer_id = next(self._block, None)
            if producer_id is None:
                self._block = iter(await self._next_block())
                producer_id = next(self._block)
            return producer_id

    async def _next_block(self) -> range:
        try:
            return await self._store.allocate_producer_ids(BLOCK_SIZE)
        except OSError as error:
            raise StorageError(f"no producer ids can be allocated: {error}") from error

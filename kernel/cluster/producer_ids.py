"""Producer ids, handed out of blocks that the controller allocates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from tidelog.kernel.seams.controller import Controller

BLOCK_SIZE = 1000
"""Ids per block, as in Kafka: one durable write serves a thousand producers."""


class ProducerIds:
    """Ids that no other producer of this cluster ever had."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._block = iter(range(0))
        self._lock = trio.Lock()

    async def allocate(self) -> int:
        """Return a producer id that was never returned before."""
        # Else two producers at the end of a block would both have one allocated, and all but one id of the
        # first be lost.
        async with self._lock:
            producer_id = next(self._block, None)
            if producer_id is None:
                self._block = iter(await self._controller.allocate_producer_ids(BLOCK_SIZE))
                producer_id = next(self._block)
            return producer_id

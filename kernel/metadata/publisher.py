"""Application of committed deltas to the parts of the broker, in one order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import trio

from tidelog.kernel.metadata.image import ImageChange, ImageFollower, MetadataDelta, MetadataImage

_log = logging.getLogger(__name__)


class MetadataPublisher:
    """Passes each delta to the parts that follow the image; nothing else changes what these have of it.

    The metadata store calls `deliver` in the order of its commits, and does not wait: a part may need the
    store while it applies a delta, as a replica move does that a deletion waits for. What committed a change
    then awaits `catch_up`, so that all parts have it before the change is answered.
    """

    def __init__(self, image: Callable[[], MetadataImage], parts: Sequence[ImageFollower]) -> None:
        """`image()` is the present one of the metadata store; `parts` follow in their order."""
        self._image = image
        self._applied = MetadataImage()
        self._parts = parts
        self._waiting: MetadataDelta | None = None
        self._delivered = trio.Event()
        self._applying = trio.Lock()

    def deliver(self, delta: MetadataDelta) -> None:
        """Take the next delta, which is durable and in the image."""
        # Merged: parts that are behind follow many changes at once, which ends in the same image.
        self._waiting = delta if self._waiting is None else self._waiting.then(delta)
        self._delivered.set()

    def begin(self) -> MetadataImage:
        """Return the present image, which the parts are about to load as a whole; deltas lead on from it."""
        # What was delivered before is in the image that the parts load.
        self._waiting = None
        self._applied = self._image()
        return self._applied

    async def run(self) -> None:
        """Apply what is delivered, until cancelled: not every change is one that this broker asked for."""
        while True:
            await self._delivered.wait()
            # Before the work: a delivery from now on sets the new one, at worst for an empty round.
            self._delivered = trio.Event()
            try:
                await self.catch_up()
            except Exception:
                _log.exception("a change of the metadata was not applied")

    async def catch_up(self) -> None:
        """Apply what was delivered, and return when all of it is; not interrupted by a cancellation."""
        # A client that disconnects must not leave parts of the broker at an older image than others.
        with trio.CancelScope(shield=True):
            # One change at a time: a second caller waits until the first, which may have taken its delta
            # along, is done.
            async with self._applying:
                while self._waiting is not None:
                    # No store waits between its image and the delivery, so this delta leads to that image.
                    change = ImageChange(self._applied, self._waiting, self._image())
                    # Before the parts follow: a delta that is delivered meanwhile starts from this image.
                    self._waiting, self._applied = None, change.image
                    for part in self._parts:
                        await part.follow(change)

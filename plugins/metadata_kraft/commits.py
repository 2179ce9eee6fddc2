"""Commits to the metadata log: one at a time, each of them whole, durable before the image has it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

import trio

from tidelog.kernel import disk
from tidelog.kernel.errors import StorageError
from tidelog.kernel.pace import Pace
from tidelog.plugins.metadata_kraft.changes import Change
from tidelog.plugins.metadata_kraft.encoding import MAX_BATCH_BYTES, frame, in_chunks
from tidelog.plugins.metadata_kraft.housekeeping import Snapshots
from tidelog.plugins.metadata_kraft.image import RecordImage
from tidelog.plugins.metadata_kraft.log import MetadataLog
from tidelog.plugins.metadata_kraft.records.control import BeginTransactionRecord, EndTransactionRecord
from tidelog.plugins.metadata_kraft.replay import apply_message

_log = logging.getLogger(__name__)

Step: TypeAlias = Callable[[], Awaitable[None]]

# Half of what a batch may have leaves room for what the records' own lengths and offsets take.
_CHUNK_BYTES = MAX_BATCH_BYTES // 2


class Commits:
    """Writes to one metadata log and its image; `owed` are steps of the start that a full disk refused."""

    def __init__(
        self,
        log: MetadataLog,
        image: RecordImage,
        snapshots: Snapshots,
        committed: Callable[[Sequence[object]], Awaitable[None]],
    ) -> None:
        """`committed(messages)` is called when they are durable and in the image."""
        self.log = log
        self._committed = committed
        self.owed: list[Step] = []
        self._image = image
        self._snapshots = snapshots
        self._changing = trio.Lock()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """Change the metadata alone, and after what is owed.

        Raises:
            OSError: the disk refuses what is owed.
        """
        async with self._changing:
            # A step that was cancelled after it was written would be written again, since it is still owed.
            with trio.CancelScope(shield=True):
                while self.owed:
                    await self.owed[0]()
                    del self.owed[0]
            yield

    async def now_or_with_room(self, step: Step) -> None:
        """Take a step of the start; while the disk is full, it is owed, and taken before the next change.

        Raises:
            OSError: the disk refused for another reason.
        """
        # Behind what is owed already: the steps are taken in their order.
        self.owed.append(step)
        try:
            async with self.alone():
                pass
        except OSError as error:
            if not disk.is_full(error):
                raise
            if step is self.owed[0]:
                _log.warning("the metadata log has no room, and takes no changes until it has: %s", error)

    async def pay(self) -> None:
        """Take the steps that are owed, if there is room now.

        Raises:
            OSError: there is none.
        """
        if self.owed:
            async with self.alone():
                _log.info("the metadata log has room again")

    async def commit(self, changes: Iterable[Change]) -> None:
        """Write changes, durably, then take them into the image: all of them, or none.

        Those that fit a batch are one; more are a transaction, of which a crash leaves nothing. Not cancelled
        in between: what is in the log without being in the image would be contradicted by the next change.
        One request may change thousands of settings, so they are made and encoded in steps.

        Raises:
            OSError: the disk refused.
        """
        made: list[object] = []
        values: list[bytes] = []
        pace = Pace()
        # Before the shield: nothing is written yet, so a change may still be cancelled.
        for message, version in changes:
            made.append(message)
            values.append(frame(message, version))
            await pace.turn()
        if sum(map(len, values)) > _CHUNK_BYTES:
            values = [
                frame(BeginTransactionRecord(name="Large change")),
                *values,
                frame(EndTransactionRecord()),
            ]
        with trio.CancelScope(shield=True):
            await self.write(values)
            for message in made:
                apply_message(self._image, message)
                await pace.turn()
            # Before a snapshot, which may fail: the change is made.
            await self._committed(made)
            if self._snapshots.is_due():
                await self.take_snapshot()

    async def write(self, values: Sequence[bytes]) -> None:
        """Write framed records, durably, without taking them into the image: all of them, or none.

        Raises:
            OSError: the disk refused.
        """
        if values:
            await self._append(values)
            await trio.to_thread.run_sync(self.log.flush)

    async def _append(self, values: Sequence[bytes]) -> None:
        begun = self.log.end_offset
        try:
            for chunk in in_chunks(values, _CHUNK_BYTES):
                self._snapshots.bytes_since += await self.log.append(chunk)
        except (OSError, StorageError):
            # The begin of a transaction without its end would hide every later change from the next start.
            if self.log.end_offset > begun:
                await trio.to_thread.run_sync(self.log.truncate_to, begun)
            raise

    def append_control(self, messages: Sequence[object]) -> None:
        """Append control records as one batch, which is durable with the next flush.

        Raises:
            OSError: the disk refused.
        """
        self._snapshots.bytes_since += self.log.append_control(messages)

    async def maintain(self) -> None:
        """Take a snapshot if one is due, and remove what is too old.

        Raises:
            OSError: the disk refused; what is left is removed at the next call.
        """
        async with self.alone():
            if self._snapshots.is_due():
                await self.take_snapshot()
            await trio.to_thread.run_sync(self._snapshots.clean)

    async def take_snapshot(self, *, above_bytes: int = 0) -> None:
        """Take a snapshot if the log has grown by so many bytes since the last one."""
        if self._snapshots.bytes_since >= above_bytes:
            await trio.to_thread.run_sync(self._snapshots.take_and_clean)

"""Replica moves between log directories, one after the other.

    1. copy     batches go into `<topic>-<partition>.<32 hex digits>-future` in the target, in a thread
    2. join     when hardly anything is missing, the rest is copied between two appends; from then on every
                append goes into both
    3. durable  the copy is flushed, and gets the files beside the log
    4. decide   the metadata log assigns the partition to the target
    5. swap     between two appends the copy gets the partition's name and takes its place
    6. remove   the old directory is renamed `-delete`, and removed after `file.delete.delay.ms`

A crash before step 4 leaves the partition where it was; the next start continues the copy. One between 4 and
6 leaves two that are equal, and the next start takes the one that the metadata names.
Source: KIP-113, KIP-858.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence

import attrs
import trio

from tidelog.kernel import disk
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.kernel.seams.storage.directories import KnownTopics
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.directories.stray_partitions import move_aside
from tidelog.plugins.storage_file.moving.catch_up import StartOver
from tidelog.plugins.storage_file.moving.replica_move import ReplicaMove
from tidelog.plugins.storage_file.moving.throttle import Throttle
from tidelog.plugins.storage_file.names import delete_directory, stray_directory

_log = logging.getLogger(__name__)

RETRY_SECONDS = 0.01
"""Between two attempts to swap while side files are written."""


@attrs.define
class MoveStatistics:
    """Counts of moves that succeeded and of those that were cancelled or failed, and of bytes copied."""

    moved: int = 0
    abandoned: int = 0
    copied_bytes: int = 0


class ReplicaMoves:
    """All moves of one storage, by partition."""

    def __init__(
        self,
        assign: Callable[[TopicPartition, bytes], Awaitable[None]],
        moved: Callable[[TopicPartition, str], None],
        bytes_per_second: Callable[[], int],
    ) -> None:
        """`assign(partition, directory_id)` records durably in which directory a partition is.

        `moved(partition, path)` is called when it is served from there. `bytes_per_second()` is the largest
        rate of copying at that time.
        """
        self._assign = assign
        self._moved = moved
        self._throttle = Throttle(bytes_per_second)
        self._sender, self._receiver = trio.open_memory_channel[ReplicaMove](math.inf)
        self._moves: dict[TopicPartition, ReplicaMove] = {}
        self._performing: ReplicaMove | None = None
        self._done = trio.Event()
        self.statistics = MoveStatistics()

    def begin(self, move: ReplicaMove) -> None:
        """Queue a move, unless one to the same directory is under way; another one is cancelled."""
        there = self._moves.get(move.partition)
        if there is not None and there.target is move.target and there.wanted():
            return
        self.cancel([move.partition])
        self._moves[move.partition] = move
        move.target.futures[move.partition] = move.name
        self._sender.send_nowait(move)

    def cancel(self, partitions: Iterable[TopicPartition]) -> None:
        """Cancel moves that are not decided yet."""
        for partition in partitions:
            move = self._moves.get(partition)
            if move is not None:
                move.cancelled = True

    def cancel_in(self, directory: LogDirectory) -> None:
        """Cancel all moves from and to a directory that failed; its files are not touched."""
        for move in self.under_way():
            if directory in (move.source, move.target):
                move.keep_copy = move.cancelled = True

    def under_way(self) -> list[ReplicaMove]:
        """Return all that have not ended."""
        return list(self._moves.values())

    async def stop(self) -> None:
        """Cancel what is not decided, and wait for the rest; copies stay, for the next start."""
        for move in self.under_way():
            move.keep_copy = move.cancelled = True
        while self._performing is not None:
            await self._done.wait()

    async def wait_decided(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait for moves of these partitions that are decided."""
        for partition in partitions:
            while (move := self._moves.get(partition)) is not None and move.decided:
                await self._done.wait()

    async def run_next(self) -> None:
        """Wait for the next move, and perform it to its end."""
        move = self._performing = await self._receiver.receive()
        try:
            if await self._perform(move):
                self.statistics.moved += 1
                _log.info("%s moved from %s to %s", move.partition, move.source.path, move.target.path)
            else:
                self.statistics.abandoned += 1
                await self._discard(move)
        except (OSError, BrokerError, ValueError) as error:
            self.statistics.abandoned += 1
            _log.error("%s is not moved to %s: %s", move.partition, move.target.path, error)
            await self._discard(move)
        finally:
            move.end()
            self._performing = None
            if self._moves.get(move.partition) is move:
                del self._moves[move.partition]
            self._done.set()
            self._done = trio.Event()

    async def _perform(self, move: ReplicaMove) -> bool:
        while move.wanted():
            try:
                await self._throttle.wait(move.wanted)
                limit = self._throttle.bytes_at_once()
                copied = await trio.to_thread.run_sync(move.copy_some, limit)
                self.statistics.copied_bytes += copied
                self._throttle.add(copied)
                if copied < limit and move.wanted() and move.join():
                    await trio.to_thread.run_sync(move.make_durable)
                    if move.wanted() and await self._decide(move):
                        return True
            except StartOver:
                if move.wanted():
                    move.end()
                    await trio.to_thread.run_sync(move.remove_copy)
        return False

    async def _decide(self, move: ReplicaMove) -> bool:
        """Take steps 4 to 6; return False when the copy is behind."""
        # Before the first wait: who deletes the partition waits for the end of the move from here on.
        move.decided = True
        try:
            await trio.to_thread.run_sync(move.begin_swap)
            swapped = False
            try:
                await self._assign(move.partition, move.target.id_bytes)
                swapped = await self._swap(move)
            finally:
                # The metadata must name the directory that has the whole log: the next start serves that one.
                if not swapped:
                    # Also when this task is cancelled, which would end the wait for the store at once.
                    with trio.CancelScope(shield=True):
                        await self._assign(move.partition, move.source.id_bytes)
            if swapped:
                self._moved(move.partition, str(move.target.path))
                await trio.to_thread.run_sync(move.remove_source)
            return swapped
        finally:
            move.decided = False

    async def _swap(self, move: ReplicaMove) -> bool:
        while move.is_in_sync:
            if move.swap():
                return True
            await trio.sleep(RETRY_SECONDS)
        return False

    async def _discard(self, move: ReplicaMove) -> None:
        """Remove the copy, unless its directory failed or the broker stops."""
        move.end()
        move.target.arrived(move.partition)
        await trio.to_thread.run_sync(move.remove_copy)


def resolve_copies(directories: Sequence[LogDirectory], known: KnownTopics) -> None:
    """Blocking: at the start, finish moves that were decided, and drop copies that are of no use.

    Those that are left in `LogDirectory.futures` afterwards are to be continued.
    """
    resumed: set[TopicPartition] = set()
    for directory in directories:
        for partition in sorted(directory.futures):
            current = [home for home in directories if partition in home.folders]
            if not known.has(partition):
                _rename(directory, partition, stray_directory(partition))
            elif known.assigned(partition) == directory.id_bytes and directory not in current:
                _finish(directory, partition, current)
            elif directory in current or partition in resumed:
                path = _rename(directory, partition, delete_directory(partition))
                directory.leftovers.append(path)
            elif not current:
                name = directory.futures.pop(partition)
                _log.warning("%s/%s is left alone: what it is a copy of is offline", directory.path, name)
            else:
                resumed.add(partition)


def _finish(directory: LogDirectory, partition: TopicPartition, current: Sequence[LogDirectory]) -> None:
    """Give the copy its final name: the metadata assigns the partition to its directory."""
    _log.warning("%s has moved to %s: a crash came before the last step", partition, directory.path)
    # The copy gets its name first: a crash in between leaves two directories, of which the next start keeps
    # the one that the metadata names.
    disk.rename(f"{directory.path}/{directory.futures.pop(partition)}", directory.partition_path(partition))
    disk.sync_directory(directory.path)
    directory.found(partition)
    for home in current:
        path = move_aside(home, partition, stray_directory(partition))
        _log.warning("what was left of %s in its old place is %s; it can be removed", partition, path)


def _rename(directory: LogDirectory, partition: TopicPartition, name: str) -> str:
    target = f"{directory.path}/{name}"
    disk.rename(f"{directory.path}/{directory.futures.pop(partition)}", target)
    return target

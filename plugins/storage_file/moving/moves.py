"""Moves of partitions between log directories, one after the other.

    1. copy     batches go into `<topic>-<partition>.<32 hex digits>-future` in the target, in a thread
    2. mirror   when hardly anything is missing, the rest is copied between two appends; from then on every
                append goes into both
    3. durable  the copy is flushed, and gets the files beside the log
    4. decide   the metadata log says that the partition is in the target now
    5. swap     between two appends the copy gets the partition's name and takes its place
    6. remove   the old directory is renamed `-delete`, and goes after `file.delete.delay.ms`

A crash before step 4 leaves the partition where it was; the next start goes on with the copy. One between 4
and 6 leaves two that are equal, and the next start takes the one that the metadata names.
Source: KIP-113, KIP-858.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Generator, Iterable

import attrs
import trio

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.storage import PartitionSpec, TopicPartition, WouldBlock
from tidelog.plugins.storage_file import disk
from tidelog.plugins.storage_file.directories.deletion import remove_all
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.directories.strangers import set_aside
from tidelog.plugins.storage_file.moving.copying import (
    StartOver,
    catch_up,
    copy_the_rest,
    first_offset,
    is_prefix,
)
from tidelog.plugins.storage_file.moving.succession import become_copy, copy_side_files, keep_mirror
from tidelog.plugins.storage_file.names import delete_directory
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.recovery.opening import Placement, open_partition
from tidelog.plugins.storage_file.services import Services

_log = logging.getLogger(__name__)

RETRY_SECONDS = 0.01
"""Between two attempts to swap while something else changes segments."""


@attrs.define
class MoveStatistics:
    """What moves did so far: partitions that moved, moves that were given up, bytes that were copied."""

    moved: int = 0
    given_up: int = 0
    copied_bytes: int = 0


@attrs.define(eq=False)
class Move:
    """A partition on its way; `name` is the directory of its copy in `target`.

    `decided`: it cannot be given up any more. `keep_copy`: what was copied stays if it is given up.
    """

    spec: PartitionSpec
    store: FilePartitionStore
    source: LogDirectory
    target: LogDirectory
    name: str
    copy: FilePartitionStore | None = None
    cancelled: bool = False
    decided: bool = False
    keep_copy: bool = False

    @property
    def offset_lag(self) -> int:
        """How many offsets the copy is behind."""
        copy, store = self.copy, self.store
        return store.log_end_offset - (store.log_start_offset if copy is None else copy.log_end_offset)

    @property
    def partition(self) -> TopicPartition:
        """What moves."""
        return self.store.topic_partition

    @property
    def path(self) -> str:
        """The directory of the copy."""
        return f"{self.target.path}/{self.name}"

    def wanted(self) -> bool:
        """Whether it is to go on."""
        return not self.cancelled

    @property
    def has_mirror(self) -> bool:
        """Whether the copy has all that the log has, and keeps having it."""
        mirror = self.store.mirror
        return mirror is not None and not mirror.broken


class Moves:
    """All moves of one storage, by partition."""

    def __init__(self, assign: Callable[[TopicPartition, bytes], Awaitable[None]]) -> None:
        """`assign(partition, directory_id)` notes durably where a partition is."""
        self._assign = assign
        self._sender, self._receiver = trio.open_memory_channel[Move](math.inf)
        self._moves: dict[TopicPartition, Move] = {}
        self._performing: Move | None = None
        self._done = trio.Event()
        self.statistics = MoveStatistics()

    def begin(self, move: Move) -> None:
        """Have a partition moved, unless it is on its way there; another way is given up."""
        there = self._moves.get(move.partition)
        if there is not None and there.target is move.target and there.wanted():
            return
        self.cancel([move.partition])
        self._moves[move.partition] = move
        move.target.futures[move.partition] = move.name
        self._sender.send_nowait(move)

    def cancel(self, partitions: Iterable[TopicPartition]) -> None:
        """Give up moves that are not decided yet."""
        for partition in partitions:
            move = self._moves.get(partition)
            if move is not None:
                move.cancelled = True

    def cancel_in(self, directory: LogDirectory) -> None:
        """Give up all moves from and to a directory that failed; its files are not touched."""
        for move in self.under_way():
            if directory in (move.source, move.target):
                move.keep_copy = move.cancelled = True

    def under_way(self) -> list[Move]:
        """All that are not done."""
        return list(self._moves.values())

    async def stop(self) -> None:
        """Give up what is not decided, and wait for the rest; copies stay, for the next start."""
        for move in self.under_way():
            move.keep_copy = move.cancelled = True
        while self._performing is not None:
            await self._done.wait()

    async def wait_decided(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait for moves of these that cannot be given up any more."""
        for partition in partitions:
            while (move := self._moves.get(partition)) is not None and move.decided:
                await self._done.wait()

    async def run_next(self) -> None:
        """Take the next move to its end."""
        move = self._performing = await self._receiver.receive()
        try:
            if await self._perform(move):
                self.statistics.moved += 1
                _log.info("%s moved from %s to %s", move.partition, move.source.path, move.target.path)
            else:
                self.statistics.given_up += 1
                await self._discard(move)
        except (OSError, BrokerError, ValueError) as error:
            self.statistics.given_up += 1
            _log.error("%s is not moved to %s: %s", move.partition, move.target.path, error)
            await self._discard(move)
        finally:
            move.store.mirror = None
            self._performing = None
            if self._moves.get(move.partition) is move:
                del self._moves[move.partition]
            self._done.set()
            self._done = trio.Event()

    async def _perform(self, move: Move) -> bool:
        while move.wanted():
            try:
                copy = move.copy
                if copy is None:
                    copy = move.copy = await trio.to_thread.run_sync(_open_copy, move)
                copy.services = _copying(move.target.services)
                self.statistics.copied_bytes += await trio.to_thread.run_sync(
                    catch_up, move.store, copy, move.wanted
                )
                if move.wanted() and _join(move, copy):
                    await trio.to_thread.run_sync(_make_durable, move, copy)
                    if move.wanted() and move.has_mirror and await self._decide(move):
                        return True
            except StartOver:
                move.store.mirror = None
                move.copy = None
                await trio.to_thread.run_sync(remove_all, [move.path])
        return False

    async def _decide(self, move: Move) -> bool:
        """Steps 4 to 6; False when the copy did not keep up."""
        move.decided = True
        try:
            await self._assign(move.partition, move.target.id_bytes)
            swapped = False
            try:
                swapped = await self._swap(move)
            finally:
                if not swapped:
                    await self._assign(move.partition, move.source.id_bytes)
            if swapped:
                # What was the copy is the partition now, whatever becomes of the rest.
                move.copy = None
                await trio.to_thread.run_sync(_remove_source, move)
            return swapped
        finally:
            move.decided = False

    async def _swap(self, move: Move) -> bool:
        directory = move.target.partition_path(move.partition)
        while move.has_mirror:
            if become_copy(move.store, directory, move.target.services):
                move.source.stores.pop(move.partition, None)
                move.target.add(move.store)
                move.target.arrived(move.partition)
                return True
            await trio.sleep(RETRY_SECONDS)
        return False

    async def _discard(self, move: Move) -> None:
        """Take the copy away, unless its directory failed or the broker stops."""
        move.store.mirror = None
        move.target.arrived(move.partition)
        if move.copy is not None and not move.keep_copy:
            move.copy.retire()
            await trio.to_thread.run_sync(remove_all, [move.path])


def _open_copy(move: Move) -> FilePartitionStore:
    """Blocking: the copy that an earlier run left, if it can be gone on with, or else a new one."""
    placement = Placement(move.spec, move.target, exists=True, future=move.name)
    try:
        disk.stat(move.path)
    except FileNotFoundError:
        return _new_copy(move, placement)
    with _telling(move.target):
        copy = open_partition(placement, registered=True)
    if is_prefix(copy, move.store):
        _log.info("%s: going on with %s at offset %d", move.partition, move.path, copy.log_end_offset)
        return copy
    remove_all([move.path])
    return _new_copy(move, placement)


def _new_copy(move: Move, placement: Placement) -> FilePartitionStore:
    begin_at = first_offset(move.store)
    with _telling(move.target):
        disk.mkdir(move.path)
        return open_partition(placement._replace(exists=False, begin_at=begin_at), registered=True)


@contextlib.contextmanager
def _telling(directory: LogDirectory) -> Generator[None]:
    """Pass on what the disk of that directory refuses."""
    try:
        yield
    except OSError as error:
        directory.services.disk_failed(error)
        raise


def _join(move: Move, copy: FilePartitionStore) -> bool:
    """Step 2, on the event loop; False when too much was appended meanwhile."""
    try:
        if not copy_the_rest(move.store, copy):
            return False
    except WouldBlock:
        return False
    copy.services = move.target.services
    keep_mirror(move.store, copy)
    return True


def _make_durable(move: Move, copy: FilePartitionStore) -> None:
    copy.raise_log_start(move.store.log_start_offset)
    with _telling(move.target):
        move.target.write_log_start_of(move.partition, copy)
    copy_side_files(move.store)
    copy.flush()


def _remove_source(move: Move) -> None:
    try:
        with _telling(move.target):
            disk.sync_directory(move.target.path)
        with _telling(move.source):
            path = set_aside(move.source, move.partition, delete_directory(move.partition))
            disk.sync_directory(move.source.path)
    except OSError as error:
        _log.error("%s has moved, its old directory is left: %s", move.partition, error)
        return
    move.source.services.delete_later([path], move.spec.config.file_delete_delay_ms)


def _copying(services: Services) -> Services:
    """What a copy needs while a thread writes it: its background work is done in that thread too."""

    def at_once(name: str, job: Callable[[], object]) -> None:
        job()

    return services._replace(in_thread=at_once)

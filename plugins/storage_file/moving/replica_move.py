"""The steps of one replica move; `moves` has their order.

Blocking steps run in a thread, the others on the event loop, between two appends. In the table of
`log/operations.py` a move is `Operation.MOVE` until it is decided, and `Operation.SWAP` from then on.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Generator, Sequence

import attrs

from tidelog.kernel import disk
from tidelog.kernel.errors import StorageError
from tidelog.kernel.seams.storage import PartitionSpec, PartitionStore, TopicPartition, WouldBlock
from tidelog.plugins.storage_file import keys
from tidelog.plugins.storage_file.directories.deletion import remove_all
from tidelog.plugins.storage_file.directories.log_directory import LogDirectory
from tidelog.plugins.storage_file.directories.placing import Placement
from tidelog.plugins.storage_file.directories.stray_partitions import move_aside
from tidelog.plugins.storage_file.log.future_replica import FutureReplica
from tidelog.plugins.storage_file.log.operations import Change, Operation, OperationAborted, UnderWay
from tidelog.plugins.storage_file.moving.catch_up import CatchUp, StartOver, first_offset, is_prefix
from tidelog.plugins.storage_file.names import delete_directory
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.recovery.opening import open_partition
from tidelog.plugins.storage_file.services import Services

_log = logging.getLogger(__name__)


@attrs.define(eq=False)
class ReplicaMove:
    """The move of a partition; `name` is the directory of its future replica `copy` in `target`.

    `decided`: it cannot be cancelled any more. `keep_copy`: what was copied stays if it is cancelled.
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
    _under_way: UnderWay | None = None
    _catch_up: CatchUp | None = None
    _joined: bool = False

    @property
    def offset_lag(self) -> int:
        """Number of offsets that the copy is behind."""
        copy, store = self.copy, self.store
        return store.log_end_offset - (store.log_start_offset if copy is None else copy.log_end_offset)

    @property
    def partition(self) -> TopicPartition:
        """The partition that moves."""
        return self.store.topic_partition

    @property
    def path(self) -> str:
        """Path of the copy."""
        return f"{self.target.path}/{self.name}"

    def wanted(self) -> bool:
        """Return whether it was not cancelled."""
        return not self.cancelled

    @property
    def is_in_sync(self) -> bool:
        """Return whether the copy has caught up and follows the log."""
        future = self.store.future_replica
        return future is not None and not future.behind

    def copy_some(self, limit_bytes: float = math.inf) -> int:
        """Blocking: step 1, until hardly anything is missing or `limit_bytes` are reached.

        Return the number of bytes that were copied.

        Raises:
            StartOver: the copy does not fit the log any more; `end` and `remove_copy` are next.
            LogBusy: the log is closed.
            OSError, BrokerError: a disk refused, or the log is damaged.
        """
        if self._under_way is None:
            self._under_way = self.store.operations.begin(Operation.MOVE, self._log_changed)
        self._check()
        catch_up = self._catch_up
        if catch_up is None:
            self.copy = copy = self._open_copy()
            catch_up = self._catch_up = CatchUp(self.store, copy)
        catch_up.target.log.services = _in_this_thread(_of_a_copy(self.target.services))
        return catch_up.catch_up(lambda: self.wanted() and not self._aborted, limit_bytes)

    def join(self) -> bool:
        """Step 2, on the event loop; return False when too much was appended meanwhile.

        Raises:
            StartOver, OSError, BrokerError: as for `copy_some`.
        """
        self._check()
        catch_up = self._catch_up
        try:
            if catch_up is None or not catch_up.copy_the_rest():
                return False
        except WouldBlock:
            return False
        # From here on the event loop appends to the copy, so its background work goes to threads again. No
        # append comes between the rest and this: there is no trio checkpoint.
        catch_up.target.log.services = _of_a_copy(self.target.services)
        self.store.follow_with(FutureReplica(catch_up.target, self.path, self._discard_copy_name))
        self._joined = True
        return True

    def make_durable(self) -> None:
        """Blocking: step 3.

        Raises:
            StartOver: as for `copy_some`.
            StorageError: the copy is behind.
            OSError: a disk refused.
        """
        self._check()
        copy = self._joined_copy()
        self._follow_deletions(copy)
        copy.rewritten = self.store.rewritten
        with self._reporting(self.target):
            self.target.write_checkpoints_of(self.partition, copy)
        self.store.copy_side_files_to(copy)
        copy.flush()

    def begin_swap(self) -> None:
        """Blocking: before step 4, wait for deletions; nothing changes segments until `end`.

        Raises:
            StartOver, StorageError: as for `make_durable`.
        """
        self._check()
        if self._under_way is None:
            raise StartOver
        try:
            self.store.operations.advance(self._under_way, Operation.SWAP)
        except OperationAborted as aborted:
            raise StartOver from aborted
        self._check()

    def swap(self) -> bool:
        """Step 5, on the event loop, between two appends; return False when side files are being written.

        Raises:
            OSError: the disk refused the name; nothing has changed.
        """
        path = self.target.partition_path(self.partition)
        if self.copy is None or not self.store.swap_in(self.copy, path, self.target.services):
            return False
        # No trio checkpoint in between: no task finds the partition in neither directory, or in both.
        self.source.stores.pop(self.partition, None)
        self.target.add(self.store)
        self.target.arrived(self.partition)
        # The copy is the partition now, even if the rest fails.
        self.copy = self._catch_up = None
        self.end()
        return True

    def remove_source(self) -> None:
        """Blocking: step 6; when the disk refuses, the old directory stays."""
        try:
            with self._reporting(self.target):
                # Before the old directory loses its name: a loss of power has to leave one of the two.
                disk.sync_directory(self.target.path)
                self.target.write_rewritten()
            with self._reporting(self.source):
                path = move_aside(self.source, self.partition, delete_directory(self.partition))
                disk.sync_directory(self.source.path)
                self.source.write_forgotten()
        except OSError as error:
            _log.error("%s has moved, its old directory is left: %s", self.partition, error)
            return
        self.source.services.delete_later([path], self.spec.config[keys.FILE_DELETE_DELAY_MS])

    def end(self) -> None:
        """On the event loop: stop following the log, and let other operations change segments."""
        self.store.future_replica = None
        self._joined = False
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            self.store.operations.end(under_way)

    def remove_copy(self) -> None:
        """Blocking: after `end`, remove the copy, unless its directory failed or the broker stops."""
        copy, self.copy, self._catch_up = self.copy, None, None
        if copy is not None and not self.keep_copy:
            copy.retire()
            remove_all([self.path])

    @property
    def _aborted(self) -> bool:
        return self._under_way is not None and self._under_way.aborted_by is not None

    def _check(self) -> None:
        if self._aborted:
            raise StartOver
        if self._joined and not self.is_in_sync:
            raise StorageError(f"the future replica in {self.path} is behind the log")

    def _joined_copy(self) -> FilePartitionStore:
        if self.copy is None or not self._joined:
            raise StartOver
        return self.copy

    def _log_changed(self, change: Change) -> None:
        """Follow a deletion, in its thread; before the copy joined, it does so later."""
        del change
        future = self.store.future_replica
        if future is not None:
            future.follow("deletion", self._follow_durably)

    def _discard_copy_name(self) -> None:
        """Rename a copy that is behind, when the metadata log may name its directory.

        The next start would take it for the partition, and what it lacks would be lost.
        """
        if self._under_way is None or self._under_way.operation is not Operation.SWAP:
            return
        path = f"{self.target.path}/{delete_directory(self.partition)}"
        try:
            with self._reporting(self.target):
                disk.rename(self.path, path)
        except OSError as error:
            _log.error("%s is behind the log, and cannot be renamed: %s", self.path, error)
            return
        self.target.services.delete_later([path], 0)

    def _follow_durably(self, copy: PartitionStore) -> None:
        self._follow_deletions(copy)
        self.target.write_log_starts()

    def _follow_deletions(self, copy: PartitionStore) -> None:
        copy.raise_log_start(self.store.log_start_offset)
        copy.delete_segments_before(copy.log_start_offset)

    def _open_copy(self) -> FilePartitionStore:
        """Return the copy that an earlier run left, if it can be continued, or else a new one."""
        placement = Placement(self.spec, self.target, exists=True, future=self.name)
        try:
            disk.stat(self.path)
        except FileNotFoundError:
            return self._new_copy(placement)
        with self._reporting(self.target):
            copy = open_partition(placement, registered=True)
        if is_prefix(copy, self.store):
            _log.info("%s: continuing %s at offset %d", self.partition, self.path, copy.log_end_offset)
            return copy
        remove_all([self.path])
        return self._new_copy(placement)

    def _new_copy(self, placement: Placement) -> FilePartitionStore:
        begin_at = first_offset(self.store)
        with self._reporting(self.target):
            disk.mkdir(self.path)
            return open_partition(placement._replace(exists=False, begin_at=begin_at), registered=True)

    @contextlib.contextmanager
    def _reporting(self, directory: LogDirectory) -> Generator[None]:
        """Report errors of the disk of that directory."""
        try:
            yield
        except OSError as error:
            directory.services.disk_failed(error)
            raise


def _of_a_copy(services: Services) -> Services:
    """Return services for a copy: it has no readers and its name changes, so files are deleted at once."""

    def remove(paths: Sequence[str], delay_ms: int) -> None:
        remove_all(paths)

    return services._replace(delete_later=remove)


def _in_this_thread(services: Services) -> Services:
    """Return services for a copy that a thread writes: its background work is done in that thread too."""

    def at_once(name: str, job: Callable[[], object]) -> None:
        job()

    return services._replace(in_thread=at_once)

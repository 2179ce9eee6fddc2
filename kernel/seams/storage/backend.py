"""A kind of storage, as a plugin offers it, and its context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import attrs

from tidelog.kernel.errors import PluginError
from tidelog.kernel.seams.storage.load_progress import LogLoadProgress
from tidelog.kernel.seams.storage.storage import Storage
from tidelog.kernel.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.seams.indexes import IndexFormat
    from tidelog.kernel.seams.tasks import Tasks


def _no_partitions_failed(partitions: Sequence[TopicPartition], reason: str) -> None:
    """Do nothing."""


def _no_partition_moved(partition: TopicPartition, path: str) -> None:
    """Do nothing."""


async def _no_partition_assigned(partition: TopicPartition, directory_id: bytes) -> None:
    """Do nothing."""


async def _no_directory_failed(directory_id: bytes, partitions: Sequence[TopicPartition]) -> None:
    """Do nothing."""


def _no_high_watermarks() -> Mapping[TopicPartition, int]:
    """Return none."""
    return {}


def _halt_nothing(reason: str) -> None:
    """Do nothing."""


def _no_backend(name: str) -> StorageBackend:
    raise PluginError(f"there is no storage named {name!r}")


@attrs.frozen
class StorageContext:
    """What a storage may use of its broker; `tasks` take jobs from `open` on.

    `index_formats` are those that plugins offer, by name. `progress` counts the logs that are not open yet.
    On the event loop, a storage reports with `partitions_failed(partitions, reason)` that their log directory
    failed, with `partition_moved(partition, path)` that one was moved to another log directory, and with
    `halt(reason)` that nothing can be served any more. Two reports are durable on return, and raise `OSError`
    or `StorageError` if they cannot be: `partition_assigned(partition, directory_id)`, which decides where
    the next start takes one from that is in two directories, and after
    `directory_failed(directory_id, partitions)` these have no leader. `high_watermarks()` are those of all
    partitions, also after they were closed. `backend(name)` is another kind of storage, for one that wraps it
    (`forwarding`).
    With `must_exist` a durable storage that no broker has used raises `ConfigError` when it is opened, and
    creates nothing.
    """

    config: Config
    node_id: int
    tasks: Tasks
    now_ms: Callable[[], int]
    index_formats: Mapping[str, IndexFormat] = attrs.field(factory=dict[str, "IndexFormat"])
    progress: LogLoadProgress = attrs.Factory(LogLoadProgress)
    partitions_failed: Callable[[Sequence[TopicPartition], str], None] = _no_partitions_failed
    partition_moved: Callable[[TopicPartition, str], None] = _no_partition_moved
    partition_assigned: Callable[[TopicPartition, bytes], Awaitable[None]] = _no_partition_assigned
    directory_failed: Callable[[bytes, Sequence[TopicPartition]], Awaitable[None]] = _no_directory_failed
    halt: Callable[[str], None] = _halt_nothing
    high_watermarks: Callable[[], Mapping[TopicPartition, int]] = _no_high_watermarks
    backend: Callable[[str], StorageBackend] = _no_backend
    must_exist: bool = False


class StorageBackend(Protocol):
    """A kind of storage, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name that the key `storage` chooses it by."""
        ...

    @property
    def durable(self) -> bool:
        """Whether its content outlives the process."""
        ...

    def create(self, context: StorageContext) -> Storage:
        """Return a storage that is not open yet."""
        ...

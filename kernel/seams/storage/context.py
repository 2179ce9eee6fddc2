"""What the kernel lends a storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.load_progress import LoadProgress
from tidelog.kernel.seams.storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from tidelog.kernel.config import Config
    from tidelog.kernel.seams.indexes import IndexFormat
    from tidelog.kernel.tasks import BackgroundTasks


def _told_nobody(partitions: Sequence[TopicPartition], reason: str) -> None:
    """Where nobody serves partitions, nobody has to know."""


def _no_high_watermarks() -> Mapping[TopicPartition, int]:
    """Where nobody reads, nothing is committed."""
    return {}


def _halt_nothing(reason: str) -> None:
    """Where no broker runs, none has to end."""


@attrs.frozen
class StorageContext:
    """What the kernel lends a backend; `tasks` are running when `open` is called.

    `index_formats` are those that plugins offer, by name. `progress` is to be told how far opening is.
    On the event loop, `partitions_failed(partitions, reason)` tells that the place of their data failed and
    `halt(reason)` that nothing can be served any more. `high_watermarks()` are those of all partitions, also
    after they were closed.
    """

    config: Config
    node_id: int
    tasks: BackgroundTasks
    now_ms: Callable[[], int]
    index_formats: Mapping[str, IndexFormat] = attrs.field(factory=dict[str, "IndexFormat"])
    progress: LoadProgress = attrs.Factory(LoadProgress)
    partitions_failed: Callable[[Sequence[TopicPartition], str], None] = _told_nobody
    halt: Callable[[str], None] = _halt_nothing
    high_watermarks: Callable[[], Mapping[TopicPartition, int]] = _no_high_watermarks

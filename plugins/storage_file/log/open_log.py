"""An open log in memory: what the parts of a partition's store share."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING

from tidelog.plugins.storage_file.directories.failures import FULL
from tidelog.plugins.storage_file.log.drafts import Drafts
from tidelog.plugins.storage_file.log.operations import Operation, Operations
from tidelog.plugins.storage_file.segments.creation import SegmentSettings
from tidelog.plugins.storage_file.segments.log_segments import SegmentList
from tidelog.plugins.storage_file.segments.roll_policy import ALWAYS, RollPolicy
from tidelog.plugins.storage_file.segments.spare import SpareSegment

if TYPE_CHECKING:
    from tidelog.kernel.seams.indexes import IndexFormat
    from tidelog.kernel.seams.storage import TopicPartition
    from tidelog.plugins.storage_file.log.durability import Durability
    from tidelog.plugins.storage_file.log.side_files import SideFiles
    from tidelog.plugins.storage_file.log_config import LogConfig
    from tidelog.plugins.storage_file.moving.mirror import Mirror
    from tidelog.plugins.storage_file.recovery.log_loader import LoadedSegments
    from tidelog.plugins.storage_file.services import Services


class OpenLog:
    """Segments, oldest first, the last of which takes the appends, and what is known of them.

    `operations` decides what may be done to segments at the same time. `changing` is held while segments go
    or come, `writing_beside` while side files are written; `changes` counts the former. `drafts` are those
    that may replace segments. `touched` tells that files are not as a clean stop leaves them.
    """

    __slots__ = (
        "_aborted_known_until",
        "_failure",
        "changes",
        "changing",
        "checkpointed_high_watermark",
        "config",
        "directory",
        "drafts",
        "durability",
        "files_beside",
        "index_format",
        "mirror",
        "operations",
        "policy",
        "segment_list",
        "services",
        "spare",
        "start_offset",
        "topic_partition",
        "touched",
        "writing_beside",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        config: LogConfig,
        services: Services,
        index_format: IndexFormat,
        loaded: LoadedSegments,
        side_files: SideFiles,
        log_start_offset: int,
        durability: Durability,
    ) -> None:
        """Take over segments that were loaded; there has to be at least one."""
        self.topic_partition = topic_partition
        self.directory = directory
        self.config = config
        self.services = services
        self.index_format = index_format
        self.segment_list = SegmentList(loaded.segments)
        self.files_beside = side_files
        self.start_offset = log_start_offset
        self.durability = durability
        self.policy = RollPolicy.of(config)
        self.operations = Operations(str(topic_partition))
        self.drafts = Drafts(self.operations)
        self.changing = threading.Lock()
        self.writing_beside = threading.Lock()
        self.changes = 0
        self.touched = loaded.changed
        self._aborted_known_until = loaded.aborted_known_until
        self._failure: OSError | None = None
        self.checkpointed_high_watermark = 0
        self.mirror: Mirror | None = None
        self.spare = SpareSegment()

    @property
    def log_start_offset(self) -> int:
        """The first offset that is still there."""
        return max(self.start_offset, self.segment_list.all[0].base_offset)

    @property
    def log_end_offset(self) -> int:
        """The offset that the next batch gets."""
        return self.segment_list.active.next_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size for segment in self.segment_list.all)

    @property
    def recovery_point(self) -> int:
        """The offset from which the log has to be checked after a crash."""
        return self.durability.recovery_point(self.segment_list.all)

    @property
    def first_segment_offset(self) -> int:
        """Base offset of the oldest segment."""
        return self.segment_list.all[0].base_offset

    @property
    def durable_offset(self) -> int:
        """See `PartitionStore.durable_offset`."""
        return self.durability.offset

    @property
    def aborted_known_until(self) -> int:
        """See `PartitionStore.aborted_known_until`."""
        known = self._aborted_known_until
        return self.log_end_offset if known is None else known

    def segment_settings(self) -> SegmentSettings:
        """How a segment is made that begins now."""
        config = self.config
        return SegmentSettings(
            index_format=self.index_format,
            index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            now_ms=self.services.now_ms(),
            preallocate_bytes=config.segment_bytes if config.preallocate else 0,
        )

    def append_carefully_next(self) -> None:
        """Let the next append look at everything there is to look at."""
        self.segment_list.active.byte_limit = ALWAYS

    @contextlib.contextmanager
    def taking_away(self) -> Generator[None]:
        """While segments go or come, in an operation; readers that miss some wait for the end of it."""
        with self.changing:
            try:
                yield
            finally:
                self.changes += 1

    def changed_since(self, changes: int) -> bool:
        """Blocking: whether segments were taken away since then; one that is under way is waited for."""
        with self.changing:
            return self.changes != changes

    @contextlib.contextmanager
    def beside(self) -> Generator[list[SideFiles]]:
        """The side files, and while a mirror is being kept also those of the copy; one writer at a time."""
        with self.writing_beside:
            mirror = self.mirror
            if mirror is None or mirror.broken:
                yield [self.files_beside]
            else:
                yield [self.files_beside, mirror.copy.files_beside]

    def tell(self, error: OSError) -> None:
        """Pass on that the disk refused; whether it has failed is decided elsewhere."""
        self.services.disk_failed(error)

    def tell_unless_full(self, error: OSError) -> None:
        """A full disk refuses the append and nothing else: the rest works, and there may be room soon."""
        if error.errno not in FULL:
            self.tell(error)

    @property
    def has_failed(self) -> bool:
        """Whether the log directory failed."""
        return self._failure is not None

    def fail(self, error: OSError) -> None:
        """The log directory failed: refuse what would need it, and touch nothing there any more."""
        self._failure = error
        self.operations.begin(Operation.FAIL)
        self.durability.fail(error)
        self.spare.close()
        self.touched = False
        self.sleep()

    def check(self) -> None:
        """Refuse to go on after `fail`.

        Raises:
            OSError: the log directory failed.
        """
        if self._failure is not None:
            raise OSError(self._failure.errno, str(self._failure.strerror))

    def sleep(self) -> None:
        """Let go of all descriptors and mappings; the next use brings them back."""
        for segment in self.segment_list.all:
            segment.sleep()

"""The part of a topic's configuration that the logs of its partitions go by."""

from __future__ import annotations

import attrs

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.seams.storage.keys import SEGMENT_BYTES, SEGMENT_MS
from tidelog.plugins.storage_file import keys


@attrs.frozen
class LogConfig:
    """Values that appends, rolling and deletion use, looked up once at each change; `topic` has all of them.

    Source: Kafka's class of this name.
    """

    topic: TopicConfig
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    file_delete_delay_ms: int
    preallocate: bool

    @classmethod
    def of(cls, config: TopicConfig) -> LogConfig:
        """Return the values for a topic with this configuration."""
        return cls(
            config,
            config[SEGMENT_BYTES],
            config[SEGMENT_MS],
            config[keys.SEGMENT_JITTER_MS],
            config[keys.SEGMENT_INDEX_BYTES],
            config[keys.INDEX_INTERVAL_BYTES],
            config[keys.FILE_DELETE_DELAY_MS],
            config[keys.PREALLOCATE],
        )

"""The part of a topic's configuration that its partitions go by."""

from __future__ import annotations

import attrs

from tidelog.kernel.config import TopicConfig, keys


@attrs.frozen
class PartitionConfig:
    """Values that appends, flushes and checks of records use, looked up once at each change.

    `is_compacted`: `cleanup.policy` has `compact`, so every record needs a key.
    """

    max_message_bytes: int = keys.MAX_MESSAGE_BYTES.default
    message_timestamp_type: str = keys.MESSAGE_TIMESTAMP_TYPE.default
    message_timestamp_before_max_ms: int = keys.MESSAGE_TIMESTAMP_BEFORE_MAX_MS.default
    message_timestamp_after_max_ms: int = keys.MESSAGE_TIMESTAMP_AFTER_MAX_MS.default
    flush_messages: int = keys.FLUSH_MESSAGES.default
    is_compacted: bool = False

    @classmethod
    def of(cls, config: TopicConfig) -> PartitionConfig:
        """Return the values for a topic with this configuration."""
        return cls(
            config[keys.MAX_MESSAGE_BYTES],
            config[keys.MESSAGE_TIMESTAMP_TYPE],
            config[keys.MESSAGE_TIMESTAMP_BEFORE_MAX_MS],
            config[keys.MESSAGE_TIMESTAMP_AFTER_MAX_MS],
            config[keys.FLUSH_MESSAGES],
            "compact" in config[keys.CLEANUP_POLICY],
        )

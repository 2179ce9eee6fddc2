"""What a sink has done."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tidelog.kernel.seams.sinks import CommittedChunk


class SinkState(Enum):
    """What a sink does now."""

    WAITING = "waiting"
    """Its broker is not ready yet, or it has failed and runs again soon."""
    STARTING = "starting"
    """It runs, but has not asked its feed for changes yet."""
    RUNNING = "running"
    ENDED = "ended"
    """It has returned by itself and is not run again, or the broker stops."""


@attrs.define
class SinkStatistics:
    """What one sink has done since the start: counts, and sizes in bytes."""

    state: SinkState = SinkState.WAITING
    failures: int = 0
    last_error: str | None = None
    partitions: int = 0
    """The partitions that were reported to the sink."""
    untaken: int = 0
    """The partitions with changes that the sink has not taken yet."""
    lag: int = 0
    """Offsets that are committed and that the sink has not reported as delivered, in all partitions."""
    takes: int = 0
    """How often the sink has taken changes from its feed."""
    read_chunks: int = 0
    read_batches: int = 0
    """The batches that the sink has got."""
    read_bytes: int = 0
    """What was read of logs for the sink, with markers and batches of aborted transactions."""

    details: Mapping[str, str | int | float] = attrs.field(factory=dict[str, "str | int | float"])
    """What the sink itself has reported last: see `SinkFeed.report`."""

    def count_read(self, chunk: CommittedChunk, size_bytes: int) -> None:
        """Count a chunk that the sink has read, and the bytes of it."""
        self.read_chunks += 1
        self.read_batches += len(chunk.batches)
        self.read_bytes += size_bytes

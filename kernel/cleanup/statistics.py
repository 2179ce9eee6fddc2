"""What the cleanup policies have done."""

from __future__ import annotations

import attrs


@attrs.define
class CleanupStatistics:
    """What one policy has done since the start: counts, and sizes in bytes."""

    deleted_segments: int = 0
    deleted_bytes: int = 0
    rolled_segments: int = 0
    rewrites: int = 0
    """Logs that were rewritten, each time counted."""
    rewrite_read_bytes: int = 0
    rewrite_kept_bytes: int = 0
    rewrite_read_records: int = 0
    rewrite_kept_records: int = 0
    rewrite_seconds: float = 0
    most_rewrite_seconds: float = 0
    """The time of the rewrite that took longest."""
    aborted_rewrites: int = 0
    """Rewrites that a truncation, a move or a deletion ended."""
    dead_workers: int = 0
    most_urgency: float = 0
    """The largest urgency of a rewrite that was planned when the logs were last looked at."""
    unrewritable_partitions: int = 0
    """Partitions that are passed over since their last rewrite failed, until their configuration changes."""
    failures: int = 0
    """Plans that were refused, and errors of the policy, of the disk and of rewrites."""
    counts: dict[str, float] = attrs.field(factory=dict[str, float])
    """What the policy's filters counted; see `RecordFilter.counts`."""

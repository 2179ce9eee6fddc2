"""How long and how much to measure."""

from __future__ import annotations

import attrs


@attrs.frozen
class Effort:
    """Sizes of one repeat, and how many there are."""

    repeats: int
    """Of every row, on every broker, in alternation."""
    launches_at_once: int
    """Scenarios that start brokers of their own: more than one at a time has other figures."""
    seconds: float
    """Of one throughput measurement; a consumer reads whole passes until it is over."""
    most_bytes: int
    """Of record values that one throughput measurement writes."""
    latency_records: int
    """Sent one at a time."""
    rate_records: int
    """Sent at `rate_per_s`."""
    rate_per_s: float
    warm_up_s: float
    """Of each kind of load that warms a broker; 0 for none."""
    rounds: int
    """Of loads whose figures are compared with each other; the last one counts, the others are warm-ups."""
    start_s: float
    """How long the process of a load may take to start beside another load."""
    settle_s: float
    """Between a broker's first answer and the look at its idle memory."""
    partitions: int
    """Of the rows that show many partitions."""
    connections: int
    """Of the rows that show many idle connections."""
    groups: int
    """Of ten members each, that send heartbeats."""
    offsets: int
    """That are committed when a broker starts."""
    segments: int
    """Of the log that is opened after a clean stop."""
    compacted_bytes: int
    """Of record values in the log that is compacted."""
    spark_records: int
    """That Spark reads in one query; 0 for no rows with Spark."""


WHOLE = Effort(
    repeats=3,
    launches_at_once=1,
    seconds=1.2,
    most_bytes=800_000_000,
    latency_records=3_000,
    rate_records=3_000,
    rate_per_s=1_000,
    warm_up_s=5.0,
    rounds=2,
    start_s=5.0,
    settle_s=1.0,
    partitions=2_000,
    connections=1_000,
    groups=1_000,
    offsets=1_000_000,
    segments=2_000,
    compacted_bytes=600_000_000,
    spark_records=2_000_000,
)
SMOKE = Effort(
    repeats=1,
    launches_at_once=2,
    seconds=0.1,
    most_bytes=5_000_000,
    latency_records=50,
    rate_records=50,
    rate_per_s=1_000,
    warm_up_s=0.0,
    rounds=1,
    start_s=1.0,
    settle_s=0.1,
    partitions=50,
    connections=50,
    groups=5,
    offsets=1_000,
    segments=50,
    compacted_bytes=1_000_000,
    spark_records=0,
)

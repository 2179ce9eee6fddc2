"""How long and how much to measure."""

from __future__ import annotations

import attrs


@attrs.frozen
class Effort:
    """Sizes of one slice, and how many there are."""

    slices: int
    """Of each row, on each broker, in alternation: with twelve one disturbed slice widens no interval."""
    launch_slices: int
    """The same of rows whose slices take many seconds to prepare, as those that start a broker."""
    repeats: int
    """Of rows that are measured on nothing but tidelog, or on the machine."""
    launches_at_once: int
    """Scenarios that start brokers of their own: more than one at a time has other figures."""
    slice_s: float
    """Of a throughput measurement; a slice has one to produce and one to consume, in whole passes."""
    seconds: float
    """Of measurements without alternation."""
    most_bytes: int
    """Of record values that one throughput measurement writes."""
    latency_records: int
    """Sent one at a time."""
    rate_slice_records: int
    """Sent at `rate_per_s` in a slice."""
    rate_records: int
    """Sent at `rate_per_s` where two percentiles make one figure."""
    rate_per_s: float
    warm_up_cpu_s: float
    """CPU time that a JVM gets before anything is measured; 0 for no warm-up of any broker."""
    row_warm_up_cpu_s: float
    """The same before each row, for what only that row runs."""
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
    acls: int
    """Access control entries of a broker that checks them."""
    segments: int
    """Of the log that is opened after a clean stop."""
    compacted_bytes: int
    """Of record values in the log that is compacted."""
    full_buffer_bytes: int
    """The same of the log with more keys than the dedupe buffer takes."""
    spark_records: int
    """That Spark reads in one query; 0 for no rows with Spark."""


WHOLE = Effort(
    slices=12,
    launch_slices=6,
    repeats=3,
    launches_at_once=1,
    slice_s=0.5,
    seconds=1.2,
    most_bytes=800_000_000,
    latency_records=2_000,
    rate_slice_records=1_000,
    rate_records=3_000,
    rate_per_s=1_000,
    warm_up_cpu_s=30.0,
    row_warm_up_cpu_s=3.0,
    rounds=2,
    start_s=5.0,
    settle_s=1.0,
    partitions=2_000,
    connections=1_000,
    groups=1_000,
    offsets=1_000_000,
    acls=10_000,
    segments=2_000,
    compacted_bytes=300_000_000,
    full_buffer_bytes=600_000_000,
    spark_records=2_000_000,
)
SMOKE = Effort(
    slices=1,
    launch_slices=1,
    repeats=1,
    launches_at_once=2,
    slice_s=0.1,
    seconds=0.1,
    most_bytes=5_000_000,
    latency_records=50,
    rate_slice_records=50,
    rate_records=50,
    rate_per_s=1_000,
    warm_up_cpu_s=0.0,
    row_warm_up_cpu_s=0.0,
    rounds=1,
    start_s=1.0,
    settle_s=0.1,
    partitions=50,
    connections=50,
    groups=5,
    offsets=1_000,
    acls=100,
    segments=50,
    compacted_bytes=1_000_000,
    full_buffer_bytes=1_000_000,
    spark_records=0,
)

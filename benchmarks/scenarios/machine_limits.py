"""How far the machine goes: the rows that others are shown as a share of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from benchmarks.load.loads import RECEIVE_CHECK_WRITE, SEND_FILE
from benchmarks.load.machine_limit import MachineLimitSpec
from benchmarks.load.process import run_load
from benchmarks.rows import Better, Row, Sample

from .context import Bench, usage_details
from .shapes import BARE_BATCH_SIZES, BATCH_SIZES

if TYPE_CHECKING:
    from benchmarks.load.machine_limit import MachineLimitResult
    from benchmarks.load.process import Load

SEND_FILE_LIMIT = "limit-sendfile"
_SEND_FILE_CHUNK = 1_000_000


def receive_limit(batch_bytes: int) -> str:
    """The name of the row that limits produce with batches of that size."""
    return f"limit-receive-{BATCH_SIZES[batch_bytes]}"


@attrs.frozen
class MachineLimit:
    """One bare loop."""

    load: Load[MachineLimitSpec, MachineLimitResult]
    chunk_bytes: int
    row: Row

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def rows(self) -> tuple[Row, ...]:
        return (self.row,)

    def measure(self, bench: Bench) -> list[Sample]:
        effort = bench.effort
        spec = MachineLimitSpec(str(bench.folder), self.chunk_bytes, effort.seconds, effort.most_bytes)
        result = run_load(self.load, spec, bench.load_timeout_s)
        rate = result.bytes / 1e6 / result.usage.wall_s
        return [Sample(self.row.name, rate, {"bytes": result.bytes, **usage_details(result.usage)})]


def machine_limits() -> list[MachineLimit]:
    """Receive, crc32c, write for each batch size, and sendfile."""
    receiving = [
        MachineLimit(
            RECEIVE_CHECK_WRITE,
            size,
            Row(
                receive_limit(size),
                f"bare receive, crc32c, write of {BATCH_SIZES[size]}",
                "MB/s",
                Better.NEITHER,
            ),
        )
        for size in BARE_BATCH_SIZES
    ]
    sending = Row(SEND_FILE_LIMIT, "bare sendfile of 1 MB", "MB/s", Better.NEITHER)
    return [*receiving, MachineLimit(SEND_FILE, _SEND_FILE_CHUNK, sending)]

"""Appending at a partition in files, without a broker: what the kernel and the storage take for themselves.

`receive_append` is `receive_check_write` with a partition in the place of checking and writing.
"""

from __future__ import annotations

import os
import tempfile
import time

import attrs
import crc32c
import trio

from benchmarks.procfs import Usage, as_usage

from .machine_limit import MachineLimitResult, MachineLimitSpec, fill_from, other_end
from .meter import Meter
from .stored_log import batch_of, partition_of, rebase, stored_logs

_WARM_UP = 50


@attrs.frozen
class AppendCostResult:
    """Microseconds that one append takes on average, with what the CRC and the write of it take alone."""

    microseconds: float
    bare_microseconds: float
    batch_bytes: int
    usage: Usage = attrs.field(converter=as_usage)


def receive_append(spec: MachineLimitSpec) -> MachineLimitResult:
    """Receive whole batches into one buffer and append each one."""
    return trio.run(_receive_append, spec)


async def _receive_append(spec: MachineLimitSpec) -> MachineLimitResult:
    batch = bytes(batch_of(spec.chunk_bytes))
    buffer = memoryview(bytearray(len(batch)))
    moved = 0
    async with stored_logs(spec.folder) as logs:
        partition = partition_of((await logs.open())[0])
        with other_end("source", batch) as (connection, peer_pid):
            fill_from(connection, buffer)
            partition.append_as_leader(buffer)
            meter = Meter(peer_pid)
            while moved < spec.most_bytes and meter.elapsed_s < spec.seconds:
                fill_from(connection, buffer)
                partition.append_as_leader(buffer)
                moved += len(batch)
            return MachineLimitResult(moved, meter.read())


def append_cost(spec: MachineLimitSpec) -> AppendCostResult:
    """Append one batch over and over."""
    return trio.run(_append_cost, spec)


async def _append_cost(spec: MachineLimitSpec) -> AppendCostResult:
    batch = batch_of(spec.chunk_bytes)
    view = memoryview(batch)
    count = min(spec.most_bytes // len(batch), 20_000)
    async with stored_logs(spec.folder) as logs:
        store = (await logs.open())[0]
        partition = partition_of(store)
        for _ in range(_WARM_UP):
            rebase(batch, 0)
            partition.append_as_leader(view)
        meter = Meter(0)
        for _ in range(count):
            rebase(batch, 0)
            partition.append_as_leader(view)
        usage = meter.read()
        bare = _bare(spec.folder, view, count)
    return AppendCostResult(usage.wall_s / count * 1e6, bare, len(batch), usage)


def _bare(folder: str, batch: memoryview, count: int) -> float:
    """Microseconds of a CRC and a write of the same bytes."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        descriptor, position = file.fileno(), 0
        start = time.perf_counter()
        for _ in range(count):
            crc32c.crc32c(batch[21:])
            os.pwrite(descriptor, batch, position)
            position += len(batch)
        return (time.perf_counter() - start) / count * 1e6

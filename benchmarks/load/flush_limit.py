"""The disk without a broker: how often a kilobyte can be written and flushed."""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import ExitStack

import attrs

from benchmarks.procfs import Usage, as_usage

from .meter import Meter

_sync = getattr(os, "fdatasync", os.fsync)


@attrs.frozen
class FlushLimitSpec:
    """Append `value_bytes` to each of `files` in `folder`, one thread a file, and flush, for `seconds`."""

    folder: str
    files: int
    value_bytes: int
    seconds: float


@attrs.frozen
class FlushLimitResult:
    """`flushes` of all files."""

    flushes: int
    usage: Usage = attrs.field(converter=as_usage)


def flush_limit(spec: FlushLimitSpec) -> FlushLimitResult:
    """Write and flush in a bare loop."""
    with ExitStack() as stack:
        files = [
            stack.enter_context(tempfile.TemporaryFile(dir=spec.folder, buffering=0))
            for _ in range(spec.files)
        ]
        meter, counts = Meter(os.getpid()), [0] * spec.files
        data = bytes(spec.value_bytes)

        def write_and_flush(number: int) -> None:
            descriptor = files[number].fileno()
            while not counts[number] or meter.elapsed_s < spec.seconds:
                os.write(descriptor, data)
                _sync(descriptor)
                counts[number] += 1

        threads = [threading.Thread(target=write_and_flush, args=(each,)) for each in range(spec.files)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return FlushLimitResult(sum(counts), meter.read())

"""A topic copied from one broker to another: by a mirror, and by next to no client."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import attrs

from benchmarks.procfs import Usage, as_usage

from .meter import Meter
from .raw_connection import RawConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

MIRROR, RAW = "mirror", "raw"
FETCH_BYTES = 4 << 20
"""As `fetch.max.bytes` of mirrors."""
_MAX_WAIT_MS = 500
_PRODUCE, _FETCH = 0, 1
_PRODUCE_VERSION, _FETCH_VERSION = 3, 4
_CLIENT_ID = b"raw-copy"
_BATCH_LENGTH = struct.Struct(">qi")
_BASE_OFFSET = struct.Struct(">q")
_LAST_DELTA = struct.Struct(">i")
_LAST_DELTA_AT, _LENGTH_BEHIND = 23, 12


@attrs.frozen
class CopySpec:
    """Copy all of a topic with so many partitions, whose ends are `end` each.

    `empty_topic` is one without records.
    """

    source: str
    target: str
    target_pid: int
    topic: str
    empty_topic: str
    partitions: int
    end: int
    by: str


@attrs.frozen
class CopyResult:
    """Bytes of the batches; the usage has the CPU time of the target as that of the broker."""

    copied: int
    usage: Usage = attrs.field(converter=as_usage)


def copy_topic(spec: CopySpec) -> CopyResult:
    """Copy once; the target has no such topic, or one that is empty."""
    return _by_mirror(spec) if spec.by == MIRROR else _by_raw_client(spec)


def _by_mirror(spec: CopySpec) -> CopyResult:
    import trio

    # What is done once, such as imports and topics of the coordinator, is no part of the figure.
    trio.run(_mirror_once, spec, spec.empty_topic)
    meter = Meter(spec.target_pid)
    copied = trio.run(_mirror_once, spec, spec.topic)
    return CopyResult(copied, meter.read())


async def _mirror_once(spec: CopySpec, topic: str) -> int:
    from tidelog.kernel.regexes import compile_regex
    from tidelog.plugins.mirror.connected import connected
    from tidelog.plugins.mirror.settings import MirrorSettings, NameFilter
    from tidelog.plugins.mirror.statistics import MirrorStatistics

    settings = MirrorSettings(f"copy-of-{topic}", spec.source, NameFilter([compile_regex(topic)]))
    figures = MirrorStatistics(settings.name, spec.source)
    async with connected(settings, spec.target, figures) as mirror:
        await mirror.run_until_end()
    return figures.copied_bytes


def _by_raw_client(spec: CopySpec) -> CopyResult:
    """Fetch, and send each batch as it is; the next fetch is under way while the last one is acknowledged."""
    copied = 0
    with RawConnection(spec.source) as source, RawConnection(spec.target) as target:
        meter = Meter(spec.target_pid)
        offsets = [0] * spec.partitions
        source.send(_fetch(spec, offsets))
        while min(offsets) < spec.end:
            answer = memoryview(source.receive_buffer(source.receive_size()))
            batches = list(_batches(answer, offsets))
            if min(offsets) < spec.end:
                source.send(_fetch(spec, offsets))
            for partition, batch in batches:
                target.send(_produce_head(spec.topic, partition, len(batch)))
                target.send(batch)
                copied += len(batch)
            for _ in batches:
                _check(target.receive(target.receive_size()), spec.topic)
        return CopyResult(copied, meter.read())


def _header(key: int, version: int) -> bytes:
    return struct.pack(f">hhih{len(_CLIENT_ID)}s", key, version, 0, len(_CLIENT_ID), _CLIENT_ID)


def _fetch(spec: CopySpec, offsets: list[int]) -> bytes:
    name = spec.topic.encode()
    body = _header(_FETCH, _FETCH_VERSION)
    body += struct.pack(
        f">iiiibih{len(name)}si", -1, _MAX_WAIT_MS, 1, FETCH_BYTES, 1, 1, len(name), name, spec.partitions
    )
    for partition, offset in enumerate(offsets):
        body += struct.pack(">iqi", partition, offset, FETCH_BYTES)
    return struct.pack(">i", len(body)) + body


def _produce_head(topic: str, partition: int, size: int) -> bytes:
    """Everything of a request before its batch, which is its end."""
    name = topic.encode()
    head = _header(_PRODUCE, _PRODUCE_VERSION) + struct.pack(
        f">hhiih{len(name)}siii", -1, -1, 30_000, 1, len(name), name, 1, partition, size
    )
    return struct.pack(">i", len(head) + size) + head


def _check(answer: bytes, topic: str) -> None:
    """Raise RuntimeError unless a Produce v3 response for one partition acknowledges."""
    # Correlation id; count of topics, name with its length; count of partitions, index.
    (error,) = struct.unpack_from(">h", answer, 4 + (4 + 2 + len(topic.encode())) + (4 + 4))
    if error:
        raise RuntimeError(f"Produce was answered with error code {error}")


def _batches(answer: memoryview, offsets: list[int]) -> Iterator[tuple[int, memoryview]]:
    """Yield the whole batches of a Fetch v4 response by partition, and advance the offsets behind them.

    They are as a producer sends them: a broker takes no batch that has an offset already.
    """
    (name_length,) = struct.unpack_from(">h", answer, 12)
    position = 14 + name_length
    (partitions,) = struct.unpack_from(">i", answer, position)
    position += 4
    for _ in range(partitions):
        index, error, _, _, aborted = struct.unpack_from(">ihqqi", answer, position)
        if error:
            raise RuntimeError(f"Fetch was answered with error code {error}")
        position += 26 + 16 * max(0, aborted)
        (length,) = struct.unpack_from(">i", answer, position)
        position += 4
        end = position + length
        while end - position > _LENGTH_BEHIND:
            base, size = _BATCH_LENGTH.unpack_from(answer, position)
            if position + _LENGTH_BEHIND + size > end:
                break
            _BASE_OFFSET.pack_into(answer, position, 0)
            yield index, answer[position : position + _LENGTH_BEHIND + size]
            offsets[index] = base + _LAST_DELTA.unpack_from(answer, position + _LAST_DELTA_AT)[0] + 1
            position += _LENGTH_BEHIND + size
        position = end

"""Small batches that unpack to much: however many ask for them at once, the broker's memory grows little."""

from __future__ import annotations

import gzip
import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lz4.frame
import pytest
import zstandard

from tests.deadlines import DEADLINE_S
from tidelog.kernel.records.compression import compress
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from .batches import GZIP, LZ4, SNAPPY, ZSTD, batch, record
from .raw import RawConnection
from .raw_client import RawClient, fetch, produce
from .requests import Sent, ask, response_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.peers import TidelogServer

MAX_GROWTH_KB = 256 * 1024
PARALLEL = 16
VALUE_BYTES = 1_000_000
VALUES = 200


def unpacked(values: int = VALUES, value_bytes: int = VALUE_BYTES) -> bytes:
    """The records of a batch, whose last timestamp is two milliseconds after the first."""
    last = values - 1
    return b"".join(
        record(bytes(value_bytes), offset_delta=index, timestamp_delta=2 if index == last else 0)
        for index in range(values)
    )


def packed_zstd(data: bytes, window_log: int) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log, compression_level=3)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return packer.compress(data) + packer.flush()


def packed_lz4(data: bytes) -> bytes:
    library: Any = lz4.frame
    packed: bytes = library.compress(data, block_size=library.BLOCKSIZE_MAX4MB, block_linked=False)
    return packed


PACKERS: dict[str, tuple[int, int, int, Callable[[bytes], bytes]]] = {
    "zstd": (ZSTD, VALUES, VALUE_BYTES, partial(packed_zstd, window_log=21)),
    "zstd with a window of 128 MB": (ZSTD, VALUES, VALUE_BYTES, partial(packed_zstd, window_log=27)),
    "gzip": (GZIP, VALUES, VALUE_BYTES, gzip.compress),
    "lz4": (LZ4, VALUES, VALUE_BYTES, packed_lz4),
    "snappy": (SNAPPY, 15, VALUE_BYTES, partial(compress, SNAPPY)),
    "one record of 200 MB": (ZSTD, 1, VALUES * VALUE_BYTES, partial(packed_zstd, window_log=21)),
}
QUICK = {"zstd", "snappy", "one record of 200 MB"}
"""Packers of the tests that are not long."""


@pytest.fixture(scope="module")
def client(tidelog: TidelogServer) -> Iterator[RawClient]:
    """Topics with one such batch each."""
    client = RawClient(tidelog.bootstrap, "unpacking")
    yield client
    client.close()


def status_kb(pid: int, field: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1])


def answer(bootstrap: str, sent: Sent) -> Any:
    with RawConnection(bootstrap) as connection:
        connection.send(sent.data)
        return response_of(sent, connection.frame(DEADLINE_S))


def at_once(bootstrap: str, sent: Sequence[Sent]) -> list[Any]:
    """The answers to requests that are sent on as many connections."""
    with ThreadPoolExecutor(len(sent)) as threads:
        return list(threads.map(partial(answer, bootstrap), sent))


def look_up(topic: str, timestamp: int) -> Sent:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
    return ask(apis.LIST_OFFSETS, 5, request)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in PACKERS]
)
def test_memory_grows_little(client: RawClient, tidelog: TidelogServer, name: str) -> None:
    codec, values, value_bytes, pack = PACKERS[name]
    topic = f"unpacking-{list(PACKERS).index(name)}"
    client.create(topic)
    now_ms = int(time.time() * 1000)
    packed = batch(
        body=pack(unpacked(values, value_bytes)),
        attributes=codec,
        count=values,
        last_offset_delta=values - 1,
        timestamp=now_ms,
    )
    Path(f"/proc/{tidelog.pid}/clear_refs").write_text("5", encoding="ascii")
    before = status_kb(tidelog.pid, "VmHWM")
    to_either = [ask(apis.PRODUCE, 9, produce(topic, packed, partition=index)) for index in range(2)]
    appended = at_once(tidelog.bootstrap, to_either * (PARALLEL // 2))
    assert {each.responses[0].partition_responses[0].error_code for each in appended} == {0}
    found = at_once(tidelog.bootstrap, [look_up(topic, now_ms + 1)] * PARALLEL)
    assert {each.topics[0].partitions[0].offset for each in found} == {values - 1}
    fetched = at_once(
        tidelog.bootstrap,
        [ask(apis.FETCH, 3, fetch(topic, 0, partition_max_bytes=2**31 - 1, max_bytes=2**31 - 1))] * PARALLEL,
    )
    messages = {bool(each.responses[0].partitions[0].records) for each in fetched}
    assert messages == {value_bytes == VALUE_BYTES}
    assert status_kb(tidelog.pid, "VmHWM") - before < MAX_GROWTH_KB

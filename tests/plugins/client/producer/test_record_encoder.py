"""The encoder of records and the hash, compiled and as source, against the slow path and known values."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.records.record import Record, encode_record
from tidelog.plugins.client.producer.hashing import murmur2
from tidelog.plugins.client.producer.record_encoder import QueuedRecord, encode_records

CONTENT = (
    st.none()
    | st.binary(max_size=200)
    | st.sampled_from([b"", b"x" * 63, b"x" * 64, b"x" * 8191, b"x" * 8192])
)
TIMES = st.sampled_from([0, 1, 63, 64, 8191, 8192, 2**31, 2**62]) | st.integers(0, 2**62)
RECORDS = st.lists(
    st.tuples(
        CONTENT, CONTENT, TIMES, st.lists(st.tuples(st.binary(max_size=5), CONTENT), max_size=3).map(tuple)
    ),
    min_size=1,
    max_size=70,
)


@given(RECORDS)
def test_records_are_encoded_as_one_by_one(records: list[QueuedRecord]) -> None:
    expected = bytearray()
    for offset, (key, value, time, headers) in enumerate(records):
        named = [(name.decode("latin-1"), content) for name, content in headers]
        if all(name.isascii() for name, _ in named):
            encode_record(expected, Record(offset, time, key, value, named), 0, records[0][2])
        else:
            return
    body, latest = encode_records(records)
    assert body == bytes(expected)
    assert latest == max(record[2] for record in records)


# Of Apache Kafka's `UtilsTest`.
HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@for_each("key", HASHES)
def test_murmur2_is_that_of_kafka(key: bytes) -> None:
    assert murmur2(key) == HASHES[key] & 0xFFFFFFFF


SOURCE = """
from tidelog.kernel.compiled import is_compiled, run_sources
run_sources()
from tidelog.plugins.client.producer.hashing import murmur2
from tidelog.plugins.client.producer.record_encoder import encode_records
assert not is_compiled("tidelog.plugins.client.producer.record_encoder")
records = [(None, bytes(n), n * n, ((b"h", None),)) for n in range(300)]
print(encode_records(records)[0].hex(), [murmur2(bytes(range(n))) for n in range(40)])
"""


def test_the_sources_return_what_is_compiled_returns() -> None:
    records: list[QueuedRecord] = [(None, bytes(n), n * n, ((b"h", None),)) for n in range(300)]
    done = subprocess.run([sys.executable, "-c", SOURCE], check=True, capture_output=True, text=True)
    hashes = [murmur2(bytes(range(n))) for n in range(40)]
    assert done.stdout == f"{encode_records(records)[0].hex()} {hashes}\n"

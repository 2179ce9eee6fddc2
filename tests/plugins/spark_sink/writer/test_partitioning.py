"""Partitions of keys, compared with the hash of another client and with what Apache Kafka's tests expect."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from tests.tables import for_each
from tidelog.plugins.spark_sink.writer.partitioning import key_partitions, murmur2_of_each, sticky_partitions

KEYS = st.lists(st.none() | st.binary(max_size=40) | st.binary(min_size=100, max_size=300), max_size=80)


@for_each(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafkas_producers(key: bytes, expected: int) -> None:
    assert murmur2_of_each(pa.array([key])).astype(np.int32).tolist() == [expected]


@given(keys=KEYS, first=st.integers(0, 3))
def test_murmur2_hashes_many_keys_of_any_size_at_once(keys: list[bytes | None], first: int) -> None:
    hashes = murmur2_of_each(pa.array([*keys, b"last"], pa.binary()).slice(first))
    for key, found in zip([*keys, b"last"][first:], hashes.tolist(), strict=True):
        if key is not None:
            assert found == murmur2_of_kafka_python(key) & 0xFFFFFFFF


@given(key=st.binary(max_size=20), partitions=st.integers(1, 50))
def test_key_partitions_are_those_of_the_default_partitioner(key: bytes, partitions: int) -> None:
    expected = (murmur2_of_kafka_python(key) & 0x7FFFFFFF) % partitions
    assert key_partitions(pa.array([key]), partitions).tolist() == [expected]


def test_sticky_partitions_change_after_so_many_bytes() -> None:
    sizes = np.full(10, 40)
    assert sticky_partitions(sizes, 3, 1, 100).tolist() == [1, 1, 1, 2, 2, 0, 0, 0, 1, 1]


@for_each(("count", "first"), [(1, 0), (32, 0), (33, 0), (34, 1), (400, 3)])
def test_murmur2_hashes_more_keys_than_are_hashed_one_by_one(count: int, first: int) -> None:
    keys = [bytes((number * 31 + place * 7) % 256 for place in range(number % 90)) for number in range(count)]
    hashes = murmur2_of_each(pa.array(keys, pa.binary()).slice(first)).tolist()
    assert hashes == [murmur2_of_kafka_python(key) & 0xFFFFFFFF for key in keys[first:]]


def test_key_partitions_of_null_and_empty_keys_exist() -> None:
    keys = pa.array([None, b"", None], pa.binary())
    assert all(0 <= each < 7 for each in key_partitions(keys, 7).tolist())
    assert key_partitions(pa.array([b""]), 7).tolist() == [(murmur2_of_kafka_python(b"") & 0x7FFFFFFF) % 7]
    assert murmur2_of_each(pa.array([], pa.binary())).tolist() == []

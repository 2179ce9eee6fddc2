"""The load of many producers, on a broker in memory."""

from __future__ import annotations

import os

import pytest

from benchmarks.load.many_producers import ManyProducersSpec, many_producers
from benchmarks.topics import admin_client, create_topics
from tidelog.kernel.testing.broker import broker_in_thread


@pytest.mark.parametrize(("producers", "partitions"), [(1, 1), (3, 2)])
def test_many_producers_counts_what_was_acknowledged(producers: int, partitions: int) -> None:
    with broker_in_thread() as running:
        create_topics(admin_client(running.bootstrap), {"t": partitions})
        spec = ManyProducersSpec(running.bootstrap, os.getpid(), "t", partitions, producers, 100, 0.0, 0.05)
        result = many_producers(spec)
        ends = [p.log.log_end_offset for p in running.broker.topics.get("t").partitions]
    assert 0 < len(result.latencies_us) <= sum(ends)
    assert all(end > 0 for end in ends)
    assert min(result.latencies_us) > 0

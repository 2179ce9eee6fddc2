"""Offsets by time in files whose batches are what compaction left: against a search of every record."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.crash.core import Core
from tests.kernel.log.compacted import LEFT_KINDS, LeftBatch, append_left, check_lookups

BASE = 1_600_000_000_000
LOGS = 12
MINUTE_MS = 60_000


def random_batch(choose: random.Random) -> LeftBatch:
    """Of every kind; half of them have lost all or some of their records."""
    spans = choose.randrange(1, 40)
    share = choose.choice([0, 0.1, 1, 1])
    left = {
        delta: BASE + choose.randrange(50) * MINUTE_MS for delta in range(spans) if choose.random() < share
    }
    promised = BASE + choose.randrange(60) * MINUTE_MS
    return LeftBatch(choose.choice(LEFT_KINDS), choose.randrange(5), spans, left, promised)


@pytest.mark.parametrize("seed", range(4))
async def test_batch_at_timestamp_finds_the_first_record_in_any_segment(tmp_path: Path, seed: int) -> None:
    core = Core(tmp_path)
    await core.open()
    choose = random.Random(seed)
    for number in range(LOGS):
        partition = (await core.create(f"log-{number}", 1)).partitions[0].log
        records = append_left(partition, [random_batch(choose) for _ in range(choose.randrange(60))])
        partition.raise_log_start(int(partition.log_end_offset * choose.choice([0, 0, choose.random()])))
        for minute in range(-1, 61, 3):
            check_lookups(partition, records, BASE + minute * MINUTE_MS)
    await core.close()

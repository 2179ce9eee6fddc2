"""Apache Kafka's own tool reads what we write and finds no fault with it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import trio

from tests.kernel.log.parts import open_partition
from tests.peers import KafkaDistribution, find_kafka
from tests.plugins.storage_file.files import LogDirectoryHarness, append_to, cut
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage.harness import append

TOOL = "org.apache.kafka.tools.DumpLogSegments"
SETTINGS = {"segment_bytes": 20_000, "index_interval_bytes": 500}
# A segment that begins above offset 0 is not consecutive to nothing, says the tool; that is no fault.
FAULT = re.compile(
    r"mismatch|corrupt|invalid|isvalid: false|not a valid|Exception|out of order", re.IGNORECASE
)


@pytest.fixture(scope="session")
def kafka() -> KafkaDistribution:
    """Apache Kafka's tools."""
    return find_kafka()


async def dump(kafka: KafkaDistribution, files: Iterable[Path], *options: str) -> str:
    """What the tool says of some files."""
    names = ",".join(map(str, files))
    done = await trio.to_thread.run_sync(lambda: kafka.run_tool(TOOL, [*options, "--files", names]))
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


async def filled(harness: LogDirectoryHarness) -> int:
    """A log of several segments with all that may be in one; how many records it has."""
    store = await harness.open_store(**SETTINGS)
    records = 0
    for step in range(150):
        count = step % 4 + 1
        timestamp = START_MS + (step * 37 % 100)
        append(store, 300 + step, gap=step % 29 // 28, records=count, timestamp=timestamp)
        records += count
    offset = store.log_end_offset
    emptied = make_batch([], offset, last_offset_delta=4)
    store.append_batch(emptied, offset, offset + 4, START_MS)
    producer = make_batch([b"x"], offset + 5, producer_id=9, producer_epoch=1, base_sequence=0)
    store.append_batch(producer, offset + 5, offset + 5, START_MS)
    assert len(harness.log_files()) > 3
    return records + 1


def assert_faultless(report: str, logs: Iterable[Path], records: int) -> None:
    faults = [line for line in report.splitlines() if FAULT.search(line)]
    assert not faults
    for path in logs:
        assert f"Dumping {path}" in report
    assert report.count("| offset:") == records


async def test_dump_log_segments_finds_no_fault_after_a_clean_shutdown(
    harness: LogDirectoryHarness, kafka: KafkaDistribution
) -> None:
    records = await filled(harness)
    await harness.close()
    files = sorted(path for path in harness.partition_dir.iterdir() if path.suffix.endswith("index"))
    report = await dump(kafka, files, "--index-sanity-check")
    report += await dump(kafka, files, "--verify-index-only")
    report += await dump(kafka, harness.log_files(), "--deep-iteration")
    assert report.count("passed sanity check") == len(files)
    assert_faultless(report, [*harness.log_files(), *files], records)


async def test_dump_log_segments_finds_no_fault_in_recovered_files(
    harness: LogDirectoryHarness, kafka: KafkaDistribution
) -> None:
    records = await filled(harness)
    crashed = harness.crash(harness.log_dir.parent / "crashed")
    path = crashed.log_files()[-1]
    # The batch of the one producer is torn, and nonsense follows.
    cut(path, path.stat().st_size - 10)
    append_to(path, b"\0" * 4096)
    await crashed.open()
    await crashed.open_store(**SETTINGS)
    await crashed.close()
    files = sorted(path for path in crashed.partition_dir.iterdir() if path.suffix.endswith("index"))
    report = await dump(kafka, crashed.log_files(), "--deep-iteration")
    report += await dump(kafka, files)
    assert_faultless(report, [*crashed.log_files(), *files], records - 1)


async def transactions(harness: LogDirectoryHarness) -> tuple[int, int]:
    """A log of several segments full of transactions; how many records and markers it has."""
    config = TopicConfig({"segment.bytes": 2000, "index.interval.bytes": 500})
    (store,) = await harness.storage.open_partitions([harness.spec(config=config)])
    partition = open_partition(store, config, harness.clock)
    records = markers = 0
    sequences = [0, 0, 0]
    for step in range(120):
        producer_id = step % 3
        if step % 7 == 6:
            partition.append_marker(producer_id, 0, step // 50, commit=step % 2 == 0)
            markers += 1
            continue
        batch = make_batch(
            [b"value"] * 2,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequences[producer_id],
            transactional=True,
        )
        partition.append_nowait(batch, in_transaction=True)
        sequences[producer_id] += 2
        records += 2
    partition.close()
    return records, markers


async def test_dump_log_segments_finds_no_fault_in_transactions(
    harness: LogDirectoryHarness, kafka: KafkaDistribution
) -> None:
    records, markers = await transactions(harness)
    await harness.close()
    indexes = sorted(path for path in harness.partition_dir.iterdir() if path.suffix.endswith("index"))
    snapshots = sorted(harness.partition_dir.glob("*.snapshot"))
    assert len(harness.log_files()) > 3
    assert len(snapshots) > 3
    report = await dump(kafka, [*indexes, *snapshots])
    aborted = re.findall(r"version: 0 producerId: (\d+) firstOffset: \d+ lastOffset: \d+", report)
    assert len(aborted) == sum(path.stat().st_size // 34 for path in harness.partition_dir.glob("*.txnindex"))
    assert len(aborted) > 5
    assert report.count("coordinatorEpoch: ") >= 3 * (len(snapshots) - 1)
    report += await dump(kafka, harness.log_files(), "--deep-iteration")
    assert_faultless(report, [*harness.log_files(), *indexes, *snapshots], records + markers)
    assert report.count("endTxnMarker: COMMIT") + report.count("endTxnMarker: ABORT") == markers

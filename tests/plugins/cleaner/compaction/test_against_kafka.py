"""Apache Kafka and tidelog compact copies of a directory to the same records, and go on with each other's."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.deadlines import wait_until
from tests.peers import KafkaServer, TidelogServer
from tests.plugins.cleaner.histories import CODECS, HISTORIES, LONG, Histories
from tests.plugins.cleaner.segment_files import (
    Batch,
    aborted_transactions,
    batches,
    compacted_until,
    identities,
    segments,
)
from tests.plugins.metadata_kraft.hands import kafka_on, tidelog_on
from tidelog.kernel.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT

Server = KafkaServer | TidelogServer
Starter = Callable[..., Server]

NEVER = {"log.cleaner.enable": "false"}
AT_ONCE = {
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "100",
    # Tombstones and markers stay for one compaction and go with the next.
    "log.cleaner.delete.retention.ms": "0",
}
KAFKA_AND_TIDELOG: tuple[tuple[str, Starter], ...] = (("kafka", kafka_on), ("tidelog", tidelog_on))


def log_of(data: Path, topic: str) -> Path:
    return data / f"{topic}-0"


def uncleanable_from(folder: Path) -> int:
    """Where the active segment begins, or the one with the first record of an open transaction."""
    begun: dict[int, int] = {}
    for batch in batches(folder):
        if batch.attributes & CONTROL_BIT:
            begun.pop(batch.producer[0], None)
        elif batch.attributes & TRANSACTIONAL_BIT:
            begun.setdefault(batch.producer[0], batch.base_offset)
    starts = sorted(segments(folder))
    stable = min(begun.values(), default=starts[-1])
    return max(start for start in starts if start <= stable)


def compact(data: Path, work: Path, start: Starter, topics: Iterable[str], **settings: str) -> None:
    """Have a broker compact all that it can; the broker has stopped then."""
    until = {topic: uncleanable_from(log_of(data, topic)) for topic in topics}
    server = start(data, work, **AT_ONCE, **settings)
    server.start()
    try:
        wait_until(lambda: {topic: compacted_until(data, topic) for topic in until} == until, f"{until}")
    finally:
        server.stop()


def write(histories: Histories, part: int, data: Path, work: Path) -> None:
    server = tidelog_on(data, work, **NEVER)
    server.start()
    try:
        histories.write(part, server.bootstrap)
    finally:
        server.stop()


def clocked(folder: Path) -> list[Batch]:
    return batches(folder)


def without_clock(folder: Path) -> list[Batch]:
    return [batch.without_clock() for batch in batches(folder)]


def assert_same(
    one: Path, other: Path, topics: Iterable[str], read: Callable[[Path], list[Batch]] = without_clock
) -> None:
    for topic in topics:
        expected, found = log_of(one, topic), log_of(other, topic)
        assert read(found) == read(expected), topic
        assert aborted_transactions(found) == aborted_transactions(expected), topic
        assert compacted_until(other, topic) == compacted_until(one, topic), topic


def removable(data: Path, topic: str) -> set[int]:
    """Offsets of tombstones and markers in the part of a log that is compacted."""
    folder = log_of(data, topic)
    until = compacted_until(data, topic)
    return {
        record.offset
        for batch in batches(folder)
        for record in batch.records
        if record.offset < until and (record.value is None or batch.attributes & CONTROL_BIT)
    }


@pytest.mark.long
def test_the_same_records_stay(tmp_path: Path) -> None:
    histories = Histories()
    written, by = tmp_path / "written", {name: tmp_path / name for name, _ in KAFKA_AND_TIDELOG}
    write(histories, 0, written, tmp_path / "writer")
    for name, start in KAFKA_AND_TIDELOG:
        shutil.copytree(written, by[name])
        compact(by[name], tmp_path / f"{name}-work", start, HISTORIES)
    assert_same(by["kafka"], by["tidelog"], HISTORIES, clocked)
    first = {topic: removable(by["kafka"], topic) for topic in HISTORIES}
    for topic in HISTORIES:
        kafkas, ours = (segments(log_of(data, topic)) for data in by.values())
        # Kafka keeps a segment of which nothing is left until the next compaction.
        assert [start for start, held in ours.items() if held or not start] == [
            start for start, held in kafkas.items() if held or not start
        ], topic

    for name, start in KAFKA_AND_TIDELOG:
        write(histories, 1, by[name], tmp_path / f"{name}-writer")
        compact(by[name], tmp_path / f"{name}-work", start, HISTORIES)
    assert_same(by["kafka"], by["tidelog"], HISTORIES)

    for name, start in reversed(KAFKA_AND_TIDELOG):
        other = by["tidelog" if name == "kafka" else "kafka"]
        clean = identities(log_of(other, "clean"))
        write(histories, 2, other, tmp_path / f"{name}-writer")
        compact(other, tmp_path / f"{name}-work", start, HISTORIES)
        assert identities(log_of(other, "clean")) == clean
    assert_same(by["kafka"], by["tidelog"], HISTORIES)
    left = {topic: first[topic] & removable(by["kafka"], topic) for topic in HISTORIES}
    assert left["tombstones-stay"] == first["tombstones-stay"] != set()
    for topic in ("tombstones", "aborted", "committed", *CODECS):
        assert left[topic] < first[topic], topic


def is_in_the_middle(folder: Path) -> bool:
    """Whether some segments of a log were replaced, and another one is being written."""
    written = [path for path in folder.glob("*.log.cleaned") if is_there(path)]
    return bool(written) and any(folder.glob("*.log.deleted"))


def is_there(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def interrupt(written: Path, data: Path, work: Path, start: Starter, end: str) -> None:
    """Leave a copy of a directory in the middle of a compaction, however slow that has to be."""
    for bytes_per_second in (10_000_000, 3_000_000, 1_000_000):
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(written, data)
        server = start(
            data, work, **AT_ONCE, **{"log.cleaner.io.max.bytes.per.second": str(bytes_per_second)}
        )
        server.start()
        try:
            wait_until(
                lambda: is_in_the_middle(log_of(data, "long")) or compacted_until(data, "long") > 0,
                "a segment is replaced",
            )
            server.kill() if end == "kill" else server.stop()
        finally:
            server.kill()
        # Kafka notes at a clean stop that it got nowhere: 0.
        if compacted_until(data, "long") <= 0:
            return
    raise AssertionError("compaction was never slow enough to be interrupted")


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A directory with a log that takes long to compact, and a copy in which it is compacted."""
    place = tmp_path_factory.mktemp("long")
    written, whole = place / "written", place / "whole"
    write(Histories({"long": LONG}), 0, written, place / "writer")
    shutil.copytree(written, whole)
    compact(whole, place / "work", tidelog_on, ["long"])
    return written, whole


@pytest.mark.long
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_other_finishes_what_was_interrupted(
    tmp_path: Path, long_log: tuple[Path, Path], end: str
) -> None:
    written, whole = long_log
    for (name, start), (_, other) in (KAFKA_AND_TIDELOG, KAFKA_AND_TIDELOG[::-1]):
        data = tmp_path / name
        interrupt(written, data, tmp_path / f"{name}-begins", start, end)
        compact(data, tmp_path / f"{name}-ends", other, ["long"])
        assert_same(whole, data, ["long"], clocked)


def leave_swap(data: Path, topic: str, cleaned: Path) -> None:
    """Leave the first segment of a compacted log as a crash does that comes before it is swapped in."""
    for path in log_of(cleaned, topic).glob(f"{0:020}.*"):
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex"):
            shutil.copy2(path, log_of(data, topic) / f"{path.name}.swap")


@pytest.mark.long
def test_the_other_swaps_in_what_is_complete(tmp_path: Path) -> None:
    topics = {topic: HISTORIES[topic] for topic in ("updates", "committed")}
    written = tmp_path / "written"
    write(Histories(topics), 0, written, tmp_path / "writer")
    (written / ".kafka_cleanshutdown").unlink()
    cleaned = {}
    for name, start in KAFKA_AND_TIDELOG:
        cleaned[name] = tmp_path / f"{name}-cleaned"
        shutil.copytree(written, cleaned[name])
        compact(cleaned[name], tmp_path / f"{name}-work", start, topics)
    for (name, start), (other, _) in (KAFKA_AND_TIDELOG, KAFKA_AND_TIDELOG[::-1]):
        data = tmp_path / name
        shutil.copytree(written, data)
        for topic in topics:
            leave_swap(data, topic, cleaned[other])
        # With a segment that is not complete the others of its compaction do not count.
        (log_of(data, "committed") / f"{0:020}.log.cleaned").touch()
        server = start(data, tmp_path / f"{name}-swaps", **NEVER)
        server.start()
        server.stop()
        assert clocked(log_of(data, "updates")) == clocked(log_of(cleaned[name], "updates"))
        assert clocked(log_of(data, "committed")) == clocked(log_of(written, "committed"))
        assert not [path for path in data.rglob("*") if path.suffix in (".swap", ".cleaned")]

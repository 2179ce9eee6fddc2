"""The kills, and the comparison of the three clusters."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests.deadlines import DEADLINE_S
from tests.peers import KafkaServer, ServerProcess, find_kafka
from tests.plugins.mirror.clusters import COMMITTED
from tests.random_kills import LONGEST_DOWNTIME_S, RandomKills
from tidelog.plugins.client import (
    BlockingClient,
    ClientSettings,
    GroupOffset,
    NewRecord,
    NewTopic,
    RetryPolicy,
    TopicPartition,
    or_raise,
)
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.mirror.ledger import Ledger, ledger_topic
from tidelog.plugins.mirror.ledger_reading import LedgerReader

TOPIC = "records"
PARTITIONS = 3
GROUP = "shop"
PAUSE_S = 0.05
PATIENT = ClientSettings(
    request_timeout_s=30.0,
    operation_timeout_s=DEADLINE_S,
    retry=RetryPolicy(retries=10_000, backoff_s=0.05, max_backoff_s=0.3),
)
QUICK = ClientSettings(
    request_timeout_s=5.0, operation_timeout_s=5.0, connect_timeout_s=1.0, retry=RetryPolicy(retries=2)
)
SETTINGS = ("commit.interval.ms=200", "refresh.interval.ms=1000", "group.interval.ms=500", f"groups={GROUP}")


class MirrorKills(RandomKills[int]):
    """All kills of one seed; the broker of the base class is in the middle."""

    def __init__(self, place: Path, seed: int, report: Callable[[str], None]) -> None:
        super().__init__(place, seed, report)
        distribution = find_kafka()
        self._first = KafkaServer(distribution, place / "first")
        self._last = KafkaServer(distribution, place / "last")
        self._mirrors = (
            self._mirror("in", self._first.bootstrap, self._broker.bootstrap),
            self._mirror("out", self._broker.bootstrap, self._last.bootstrap),
        )
        self._writer = _Writer(self._first.bootstrap)

    def run(self, kills: int) -> None:
        """Kill so often, and compare.

        Raises:
            AssertionError: the clusters differ, or a translated offset skips a record.
        """
        servers = (self._first, self._broker, self._last)
        try:
            for server in servers:
                server.start()
            self._writer.start()
            for mirror in self._mirrors:
                mirror.start()
            self._kill_all(
                kills,
                lambda: self._kill_mirror(0),
                lambda: self._kill_mirror(1),
                lambda: self._kill_kafka(self._first, "the source"),
                self._kill_broker,
                lambda: self._kill_kafka(self._last, "the target"),
            )
            self._writer.stop()
            self._finish()
        finally:
            self._writer.stop()
            for mirror in self._mirrors:
                mirror.kill()
            for server in servers:
                server.kill()

    def _mirror(self, name: str, source: str, target: str, *more: str) -> ServerProcess:
        options = [word for each in SETTINGS for word in ("--set", f"mirrors.{name}.{each}")]
        command = [sys.executable, "-m", "tidelog.kernel", "mirror", name, "--source", source]
        command += ["--target", target, "--topics", TOPIC, *options, *more]
        return ServerProcess(f"mirror {name}", command, self._place / f"{name}.log", dict(os.environ))

    def _kill_mirror(self, index: int) -> str:
        mirror = self._mirrors[index]
        mirror.kill()
        mirror.start()
        return mirror.name

    def _kill_kafka(self, server: KafkaServer, what: str) -> str:
        server.kill()
        time.sleep(self._chance.uniform(0, LONGEST_DOWNTIME_S))
        server.start()
        return what

    def _progress(self) -> int:
        """How many offsets the last cluster has; -1 while it does not answer."""
        try:
            with BlockingClient(self._last.bootstrap, settings=QUICK) as client:
                places = [TopicPartition(TOPIC, each) for each in range(PARTITIONS)]
                found = or_raise(client.list_offsets(places, read_committed=True))
            return sum(each.offset for each in found.values())
        except ClientError:
            return -1

    def _has_moved(self, before: int) -> bool:
        for mirror in self._mirrors:
            assert mirror.is_running, str(mirror.failed("ended by itself"))
        now = self._progress()
        return now > before >= 0 or (before < 0 and now > 0)

    def _finish(self) -> None:
        for mirror in self._mirrors:
            mirror.kill()
        first, middle, last = (each.bootstrap for each in (self._first, self._broker, self._last))
        for name, source, target in (("in", first, middle), ("out", middle, last)):
            copy = self._mirror(name, source, target, "--until-end")
            copy.start()
            assert copy.wait(DEADLINE_S) == 0, str(copy.failed("could not copy to the end"))
        contents = [_content(each) for each in (first, middle, last)]
        hashes = [[_hash_of(each) for each in content] for content in contents]
        written = sum(map(len, contents[0]))
        self._report(f"{written} committed records, hashes {[each[:12] for each in hashes[0]]}")
        assert written > 0
        for content, found in zip(contents[1:], hashes[1:], strict=True):
            for expected, got in zip(contents[0], content, strict=True):
                # The numbers of records first: they say more than hashes.
                assert len(got) == len(expected), _first_difference(expected, got)
            assert found == hashes[0]
        for index, (name, target) in enumerate((("in", middle), ("out", last))):
            translated = _check_translation(_ledger(name, target), contents[index], contents[index + 1])
            self._report(f"mirror {name}: {translated} offsets are translated without skipping a record")
        self._check_group(contents[0], contents[1])

    def _check_group(self, ours: list[list[_Row]], theirs: list[list[_Row]]) -> None:
        """The group has as many records left at its copy as at the source, or more."""
        least, left = _left(self._first.bootstrap, ours), _left(self._broker.bootstrap, theirs)
        assert least
        assert least.keys() == left.keys()
        assert all(left[each] >= least[each] for each in left), (least, left)
        self._report(f"the group has {least.total()} records left, at the copy {left.total()}")


_Row = tuple[int, bytes]


class _Writer:
    """Writes transactions to the source until it is stopped, each fourth of which is aborted."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        with BlockingClient(self._bootstrap, settings=PATIENT) as client:
            or_raise(client.create_topics([NewTopic(TOPIC, PARTITIONS)]))
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped.set()
        if self._thread.is_alive():
            self._thread.join(DEADLINE_S)

    def _run(self) -> None:
        numbers = count()
        while not self._is_stopped.is_set():
            try:
                with BlockingClient(self._bootstrap, settings=QUICK) as client:
                    self._write(client, numbers)
            except ClientError:
                # What was in doubt is in the source or not: it is compared with the copies, not with this.
                self._is_stopped.wait(PAUSE_S)

    def _write(self, client: BlockingClient, numbers: count[int]) -> None:
        producer = client.init_transactions("writer")
        while not self._is_stopped.wait(PAUSE_S):
            number = next(numbers)
            producer.begin_transaction()
            place = TopicPartition(TOPIC, number % PARTITIONS)
            records = [NewRecord(b"%d-%d" % (number, each)) for each in range(20)]
            client.produce(place, records, compression=("none", "lz4", "zstd")[number % 3], producer=producer)
            (client.abort_transaction if number % 4 == 3 else client.commit_transaction)(producer)
            if number % 10 == 0:
                end = or_raise(client.list_offsets([place], read_committed=True))[place].offset
                or_raise(client.commit_offsets(GROUP, {place: GroupOffset(max(0, end - 30))}))


def _content(bootstrap: str) -> list[list[_Row]]:
    with BlockingClient(bootstrap, settings=PATIENT) as client:
        return [
            [(each.offset, each.value or b"") for each in client.read(place, 0, None, COMMITTED)]
            for place in (TopicPartition(TOPIC, number) for number in range(PARTITIONS))
        ]


def _left(bootstrap: str, content: list[list[_Row]]) -> Counter[TopicPartition]:
    """How many records of each partition the group has left."""
    with BlockingClient(bootstrap, settings=PATIENT) as client:
        offsets = client.committed_offsets(GROUP)
    return Counter(
        {
            each: sum(row[0] >= offset.offset for row in content[each.partition])
            for each, offset in offsets.items()
        }
    )


def _hash_of(rows: list[_Row]) -> str:
    digest = hashlib.sha256()
    for _, value in rows:
        digest.update(b"%d:" % len(value) + value)
    return digest.hexdigest()


def _first_difference(expected: list[_Row], got: list[_Row]) -> str:
    for index, (one, other) in enumerate(zip(expected, got, strict=False)):
        if one[1] != other[1]:
            return f"{len(got)} of {len(expected)}, record {index} is {other}, not {one}"
    return f"{len(got)} of {len(expected)} records"


def _ledger(name: str, bootstrap: str) -> Ledger:
    with BlockingClient(bootstrap, settings=PATIENT) as client:
        return client.run(LedgerReader(TopicPartition(ledger_topic(name), 0)).read)


def _check_translation(ledger: Ledger, ours: list[list[_Row]], theirs: list[list[_Row]]) -> int:
    """Translate every offset of the source; return how many."""
    translated = 0
    for partition, offsets in ledger.maps.items():
        here, there = ours[partition.partition], theirs[partition.partition]
        for index, (offset, value) in enumerate(here):
            found = offsets.translate(offset)
            assert found is not None
            left = [row for row in there if row[0] >= found]
            assert len(left) >= len(here) - index, (partition, offset, value, found)
            translated += 1
    return translated

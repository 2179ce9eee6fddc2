"""What works against the broker meanwhile, and how each shows at the end that nothing went wrong."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Final

import attrs

from tests.clients.groups.member import Member
from tests.deadlines import DEADLINE_S
from tidelog.plugins.client import BlockingClient, NewTopic, TopicPartition, or_raise

from .programs import Program
from .writers.numbers import number_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from tests.clients.groups.kinds import Kind

    from .broker import SoakBroker

PARTITIONS: Final = 3
MEMBERS: Final = 2
_LEAVING_SHARE: Final = 0.5
POLL_S: Final = 0.1


def wait_until(condition: Callable[[], bool], describe: Callable[[], str]) -> None:
    """Wait until a condition holds.

    Raises:
        AssertionError: it did not within `DEADLINE_S`; `describe` says what was missing.
    """
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, describe()
        time.sleep(POLL_S)


def create_topics(client: BlockingClient, names: list[str], partitions: int) -> None:
    """Create topics.

    Raises:
        ClientError: one of them could not be created.
    """
    or_raise(client.create_topics([NewTopic(name, partitions) for name in names]))


@attrs.define
class Writer:
    """A program of `writers`, its topic, and the numbers that were acknowledged to it."""

    kind: str
    bootstrap: str
    folder: Path
    topic: str = ""
    acknowledged: int = 0
    _program: Program = attrs.field(init=False)
    _numbers: set[int] = attrs.field(factory=set[int])

    def __attrs_post_init__(self) -> None:
        self.topic = self.topic or f"written-by-{self.kind}"
        self._program = Program(self.kind, self.folder, self._count)

    def start(self) -> None:
        """Start the program."""
        self._program.start(self.bootstrap, self.topic, str(PARTITIONS))

    def _count(self, line: str) -> None:
        self._numbers.add(int(line.split()[1]))
        self.acknowledged = len(self._numbers)

    def finish(self) -> None:
        """Have the program send what it has, and end.

        Raises:
            AssertionError: it ended with an error: a record could not be written.
        """
        status = self._program.finish()
        assert status == 0, f"the writer with {self.kind} ended with {status}: see {self.folder}"

    def kill(self) -> None:
        """End the program at once."""
        self._program.kill()

    @property
    def last_acknowledged(self) -> dict[int, int]:
        """Partition → the largest number that was acknowledged there."""
        return {
            partition: max(number for number in self._numbers if number % PARTITIONS == partition)
            for partition in range(PARTITIONS)
        }

    def check(self, client: BlockingClient) -> int:
        """Return how many records there are: each number once, in the order of its partition.

        Raises:
            AssertionError: one is missing, there twice, out of order or has other bytes.
        """
        found = 0
        for partition in range(PARTITIONS):
            numbers = [
                number_of(record.value or b"")
                for record in client.read(TopicPartition(self.topic, partition), 0)
            ]
            expected = range(partition, partition + PARTITIONS * len(numbers), PARTITIONS)
            assert numbers == list(expected), (
                f"{self.topic}-{partition}: {_first_difference(numbers, expected)}"
            )
            found += len(numbers)
        assert self._numbers == set(range(len(self._numbers))), f"{self.kind}: acknowledged numbers have gaps"
        assert found >= len(self._numbers), f"{self.topic}: {len(self._numbers) - found} are lost"
        return found


def _first_difference(found: list[int], expected: range) -> str:
    at = next(at for at, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
    return f"number {found[at]} at offset {at}, where {expected[at]} belongs"


@attrs.define
class Readers:
    """A group of readers of one topic, of which members come, leave and are killed."""

    kind: Kind
    settings: dict[str, str]
    bootstrap: str
    topic: str
    is_compacted: bool = False
    replaced: int = 0
    _members: list[Member] = attrs.field(factory=list[Member])
    _leaving: list[Member] = attrs.field(factory=list[Member])
    _past: set[tuple[int, int]] = attrs.field(factory=set[tuple[int, int]])
    _names: itertools.count[int] = attrs.field(factory=itertools.count)

    @property
    def group(self) -> str:
        """The group's id."""
        return f"readers-{self.kind.name}-{self.topic}"

    def start(self) -> None:
        """Start all members."""
        for _ in range(MEMBERS):
            self._join()

    def _join(self) -> None:
        words = [f"{key}={value}" for key, value in self.settings.items()]
        command, environment = self.kind.command([self.bootstrap, self.topic, self.group, *words])
        member = Member(f"{self.group} {next(self._names)}", command, environment)
        member.start()
        self._members.append(member)

    def change_member(self, choose: random.Random) -> str:
        """Kill a member or have it leave, and let another one join; return what was done."""
        member = choose.choice(self._members)
        self._members.remove(member)
        leaves = member.is_running and choose.random() < _LEAVING_SHARE
        if leaves:
            member.tell("leave")
            self._leaving.append(member)
        else:
            member.kill()
            self._keep(member)
        self._join()
        return f"{'leave' if leaves else 'kill'} {member.name}"

    def replace_ended(self) -> None:
        """Let another member join for each that gave up."""
        for member in [each for each in self._leaving if not each.is_running]:
            self._leaving.remove(member)
            member.kill()
            self._keep(member)
        for member in [each for each in self._members if not each.is_running]:
            self._members.remove(member)
            member.kill()
            self._keep(member)
            self.replaced += 1
            self._join()

    def _keep(self, member: Member) -> None:
        self._past.update((read.partition, read.offset) for read in member.reads)

    @property
    def read(self) -> set[tuple[int, int]]:
        """Partition and offset of every record that a member has read."""
        now = {
            (read.partition, read.offset)
            for each in (*self._members, *self._leaving)
            for read in [*each.reads]
        }
        return self._past | now

    def wait_for_all(self, client: BlockingClient) -> None:
        """Wait until the group has read every record, of a compacted topic every one that is left.

        Raises:
            AssertionError: it does not.
        """
        wanted = self._all_records(client)

        def is_done() -> bool:
            nonlocal wanted
            self.replace_ended()
            if wanted <= self.read:
                return True
            if self.is_compacted:
                wanted = self._all_records(client)
            return False

        def missing() -> str:
            rest = sorted(wanted - self.read)
            return f"{self.group} has not read {len(rest)} of {len(wanted)} records, the first {rest[:3]}"

        wait_until(is_done, missing)

    def _all_records(self, client: BlockingClient) -> set[tuple[int, int]]:
        """Return partition and offset of every record that is there now."""
        return {
            (partition, record.offset)
            for partition in range(PARTITIONS)
            for record in client.read(TopicPartition(self.topic, partition), 0)
        }

    def kill(self) -> None:
        """End all members at once."""
        for member in (*self._members, *self._leaving):
            member.kill()


def start_writers(broker: SoakBroker, folder: Path) -> list[Writer]:
    """Create the topics of all writers and start them."""
    writers = [
        Writer(kind, broker.bootstrap, folder) for kind in ("confluent_kafka", "aiokafka", "kafka_python")
    ]
    with BlockingClient(broker.bootstrap) as client:
        create_topics(client, [writer.topic for writer in writers], PARTITIONS)
    for writer in writers:
        writer.start()
    return writers


def wait_for_writers(writers: list[Writer]) -> None:
    """Wait until every writer has begun: some clients give up when there is no broker at their start.

    Raises:
        AssertionError: one of them did not.
    """
    wait_until(
        lambda: all(writer.acknowledged for writer in writers),
        lambda: f"nothing was acknowledged to {[each.kind for each in writers if not each.acknowledged]}",
    )

"""A group of connectors and old console consumers through joins, leaves, kills and session expiries.

    python -m tests.plugins.zookeeper.consumers.mixed_group 0.8.2.2 100

After each of them every partition has one owner, which is a member that lives, and the shares are even. In
the end each record was read but those that killed members had in their hands, and none twice but where a
member was killed or lost its session before it had committed what it read.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Literal

import attrs
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.deadlines import DEADLINE_S
from tests.peers import running_tidelog, running_zookeeper, zookeeper_age_command
from tests.plugins.zookeeper.observer import observing
from tidelog.client import Admin, NewTopic, Producer

GROUP, TOPIC, PARTITIONS = "mixed", "shared", 7
SESSION_MS = 2000
MOST_MEMBERS = 4
RECORDS_PER_S = 200

Event = Literal["join", "join old", "leave", "kill", "expire"]


class MemberProcess:
    """A member, and what it has read; `was_cut` once it was killed or has lost its session."""

    def __init__(self, command: list[str], *, is_old: bool) -> None:
        self.is_old = is_old
        self.was_cut = False
        self.was_killed = False
        self.ended_by = ""
        self.values: list[int] = []
        self.session: tuple[int, bytes] | None = None
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as printed:
            for line in printed:
                words = line.split()
                if words[:1] == ["session"]:
                    self.session = int(words[1]), bytes.fromhex(words[2])
                elif line.endswith("\n"):
                    self.values.append(int(line))

    @property
    def name(self) -> str:
        """Return what it is, and what happened to it."""
        kind = "old" if self.is_old else "connector"
        return f"{kind} {self.process.pid} {'cut ' if self.was_cut else ''}{self.ended_by}"

    def end(self, number: signal.Signals) -> None:
        self.ended_by = number.name
        self.process.send_signal(number)
        self.process.wait(DEADLINE_S)
        self.reader.join(DEADLINE_S)


@attrs.define
class Figures:
    """What came of it."""

    events: Counter[str] = attrs.field(factory=Counter[str])
    produced: int = 0
    missing: int = 0
    in_hands_of_killed: int = 0
    twice_after_cuts: int = 0
    twice: int = 0
    longest_settling_s: float = 0.0
    gaps: list[str] = attrs.field(factory=list[str])


class MixedGroup:
    """The members that live, and those that have ended."""

    def __init__(self, release: str, connect: str, observer: Any, folder: Path, random: Random) -> None:
        self.release = release
        self.connect = connect
        self.observer = observer
        self.folder = folder
        self.random = random
        self.living: list[MemberProcess] = []
        self.ended: list[MemberProcess] = []
        self.figures = Figures()

    def step(self) -> None:
        """Have something happen, and wait until the partitions are divided again."""
        events: list[Event] = ["leave", "kill", "expire"] if self.living else []
        if len(self.living) < MOST_MEMBERS:
            # As often as members end, and more often while there are few.
            joins: list[Event] = ["join", "join old"]
            events += joins * (3 - min(len(self.living), 2))
        event = self.random.choice(events)
        self.figures.events[event] += 1
        self.happen(event)
        started = time.monotonic()
        self.wait(self.is_divided)
        taken = time.monotonic() - started
        self.figures.longest_settling_s = max(taken, self.figures.longest_settling_s)

    def happen(self, event: Event) -> None:
        match event:
            case "join":
                self.living.append(self.start_connector())
            case "join old":
                self.living.append(self.start_old())
            case "leave" | "kill":
                member = self.living.pop(self.random.randrange(len(self.living)))
                member.was_killed = event == "kill"
                member.was_cut |= member.was_killed
                member.end(signal.SIGTERM if event == "leave" else signal.SIGKILL)
                self.ended.append(member)
            case "expire":
                self.expire(self.random.choice(self.living))

    def start_connector(self) -> MemberProcess:
        program = "tests.plugins.zookeeper.consumers.member_program"
        words = [sys.executable, "-m", program, self.connect, GROUP, TOPIC, str(SESSION_MS)]
        member = MemberProcess(words, is_old=False)
        self.wait(lambda: member.session is not None)
        return member

    def start_old(self) -> MemberProcess:
        properties = {
            "group.id": GROUP,
            "zookeeper.session.timeout.ms": SESSION_MS,
            "rebalance.backoff.ms": 500,
            "rebalance.max.retries": 30,
            "auto.commit.interval.ms": 500,
        }
        file = self.folder / "old.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        words = ["--zookeeper", self.connect, "--topic", TOPIC, "--consumer.config", str(file)]
        command = zookeeper_age_command(self.release, "kafka.tools.ConsoleConsumer", words)
        return MemberProcess(command, is_old=True)

    def expire(self, member: MemberProcess) -> None:
        """End the session of a member: that of an old consumer, whose password is not known, by a pause."""
        member.was_cut = True
        if member.session is None:
            member.process.send_signal(signal.SIGSTOP)
            time.sleep(1.5 * SESSION_MS / 1000)
            member.process.send_signal(signal.SIGCONT)
            return
        session, member.session = member.session, None
        thief: Any = KazooClient(self.connect.partition("/")[0], client_id=session)
        thief.start(DEADLINE_S)
        thief.stop()
        thief.close()
        self.wait(lambda: member.session is not None)

    def is_divided(self) -> bool:
        """Each partition has an owner; the members are those that live, and their shares are even."""
        ids = self.names(f"/consumers/{GROUP}/ids")
        owners: dict[str, str] = {}
        for name in self.names(f"/consumers/{GROUP}/owners/{TOPIC}"):
            with suppress(NoNodeError):
                stream = self.observer.get(f"/consumers/{GROUP}/owners/{TOPIC}/{name}")[0].decode()
                owners[name] = stream.rpartition("-")[0]
        if len(ids) != len(self.living) or (self.living and len(owners) != PARTITIONS):
            return False
        shares = Counter(owners.values())
        return set(shares) == set(ids) and (not shares or max(shares.values()) - min(shares.values()) <= 1)

    def names(self, path: str) -> list[str]:
        with suppress(NoNodeError):
            return list(self.observer.retry(self.observer.get_children, path))
        return []

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            dead = [each for each in self.living if each.process.poll() is not None]
            assert not dead, f"a member has ended: {[each.process.args for each in dead]}"
            assert time.monotonic() < deadline, "the partitions are not divided"
            time.sleep(0.05)

    def described(self, value: int, readers: Mapping[int, list[MemberProcess]]) -> str:
        """Return who has read what is before and after a gap."""
        end = value
        while end not in readers and end < self.figures.produced:
            end += PARTITIONS
        before, after = (
            [each.name for each in readers.get(number, [])] for number in (value - PARTITIONS, end)
        )
        return f"{value} to {end} between {before} and {after}"

    def last_of_killed(self) -> set[int]:
        """Return the last value of each partition that killed members have read."""
        found: set[int] = set()
        for member in self.ended:
            if member.was_killed:
                found.update({value % PARTITIONS: value for value in member.values}.values())
        return found

    def count(self, produced: int) -> Figures:
        """Compare what was read with what was produced."""
        readers: defaultdict[int, list[MemberProcess]] = defaultdict(list)
        for member in (*self.ended, *self.living):
            for value in member.values:
                readers[value].append(member)
        figures = self.figures
        figures.produced = produced
        missing = [value for value in range(produced) if value not in readers]
        lost = self.last_of_killed()
        # What is returned counts as consumed: a killed member may have committed what it did not print.
        figures.in_hands_of_killed = sum(each - PARTITIONS in lost for each in missing)
        figures.missing = len(missing) - figures.in_hands_of_killed
        figures.twice = figures.twice_after_cuts = 0
        figures.gaps = [self.described(each, readers) for each in missing if each - PARTITIONS in readers]
        for members in readers.values():
            uncut = sum(not member.was_cut for member in members)
            figures.twice += max(0, uncut - 1)
            figures.twice_after_cuts += len(members) - 1 - max(0, uncut - 1)
        return figures


class Producing(threading.Thread):
    """Produces numbers, one after the other, over all partitions."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.count = 0
        self.stopped = threading.Event()

    def run(self) -> None:
        with Producer(self.bootstrap) as producer:
            while not self.stopped.wait(1 / RECORDS_PER_S):
                producer.send_and_wait(TOPIC, b"%d" % self.count, partition=self.count % PARTITIONS)
                self.count += 1


def run_mixed_group(release: str, events: int, folder: Path) -> Figures:
    """Return the figures of a group after so many events."""
    with ExitStack() as stack:
        server = stack.enter_context(running_zookeeper(folder / "zookeeper"))
        (folder / "tidelog").mkdir()
        connect = f"{server.connect}/kafka"
        broker = stack.enter_context(
            running_tidelog(folder / "tidelog", settings={"zookeeper.connect": connect})
        )
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, partitions=PARTITIONS)])
        observer = stack.enter_context(observing(connect))
        group = MixedGroup(release, connect, observer, folder, Random(release))
        producing = Producing(broker.bootstrap)
        producing.start()
        try:
            # An old console consumer begins at the end where no offset is stored.
            group.happen("join")
            offsets = f"/consumers/{GROUP}/offsets/{TOPIC}"
            group.wait(lambda: len(group.names(offsets)) == PARTITIONS)
            for number in range(events):
                group.step()
                if __name__ == "__main__":
                    print(number + 1, dict(group.figures.events), len(group.living), flush=True)
            producing.stopped.set()
            producing.join()
            if not group.living:
                group.happen("join")
            with suppress(AssertionError):
                group.wait(lambda: group.count(producing.count).missing == 0)
            return group.figures
        finally:
            for member in group.living:
                member.process.send_signal(signal.SIGCONT)
                member.end(signal.SIGKILL)


def main(release: str, events: str) -> None:
    os.environ.setdefault("TEST_DEADLINE_S", "60")
    with TemporaryDirectory() as folder:
        print(run_mixed_group(release, int(events), Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])

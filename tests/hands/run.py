"""Rounds in which a directory goes from one broker to the other and back, and everything is compared."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from enum import Enum
from pathlib import Path

from .directory import LAYOUTS, HandedDirectory, Layout, Server
from .live import STREAM, STREAM_PARTITIONS, LiveConsumer, LiveProducer, each
from .look import Looker, View, faults_in_files
from .names import NAMES
from .secured import Secured
from .table import CONFIG, TABLE, Table
from .transactions import PAYMENTS, PAYMENTS_PARTITIONS, LiveTransactions
from .work import Work

ROUNDS_PER_DIRECTORY = 3
LONGEST_BEFORE_A_KILL_S = 0.05


class End(Enum):
    """How a turn ends."""

    STOP = "a clean stop"
    KILL = "a kill at rest, but for a compaction"
    BUSY_KILL = "a kill amid writes and commits"


class Hands:
    """All rounds of one seed."""

    def __init__(self, place: Path, seed: int, report: Callable[[str], None]) -> None:
        self._place = place
        self._chance = random.Random(seed)
        self._report = report

    def run(self, rounds: int) -> None:
        """Go through the rounds.

        Raises:
            AssertionError: something is not the same as before; the message says what.
        """
        begin = self._chance.randrange(4)
        for number in range(0, rounds, ROUNDS_PER_DIRECTORY):
            count = min(ROUNDS_PER_DIRECTORY, rounds - number)
            layout = LAYOUTS[(begin + number // ROUNDS_PER_DIRECTORY) % len(LAYOUTS)]
            self._report(f"rounds {number + 1} to {number + count}: {layout}")
            place = self._place / f"directory-{number // ROUNDS_PER_DIRECTORY + 1}"
            _Directory(place, layout, self._chance, self._report).run(2 * count)


class _Directory:
    """One directory, and everybody who works with it."""

    def __init__(
        self, place: Path, layout: Layout, chance: random.Random, report: Callable[[str], None]
    ) -> None:
        self._hands = HandedDirectory(place, layout)
        self._chance = chance
        self._report = report
        bootstrap = self._hands.bootstrap
        self._looker = Looker(bootstrap)
        self._work = Work(bootstrap, chance)
        self._secured = Secured(bootstrap, self._hands.secured)
        self._table = Table(bootstrap, self._hands.log_dirs)
        self._producer = LiveProducer(bootstrap)
        self._consumers = [
            LiveConsumer(bootstrap, f"{name}-{protocol}", protocol)
            for name in NAMES.values()
            for protocol in ("classic", "consumer")
        ]
        self._transactions = [
            LiveTransactions(bootstrap, name, _paid_group(name, place), place % PAYMENTS_PARTITIONS)
            for place, name in enumerate(NAMES.values())
        ]
        self._before: View | None = None
        self._end = End.STOP

    def run(self, turns: int) -> None:
        """As many turns, and one more look at what the last one left."""
        try:
            for turn in range(turns + 1):
                self._turn(turn, last=turn == turns)
        finally:
            self._stop_clients()
            self._hands.close()

    def _stop_clients(self) -> None:
        self._producer.stop()
        each(self._consumers, LiveConsumer.stop)

    def _turn(self, turn: int, *, last: bool) -> None:
        began = time.monotonic()
        server = self._hands.start(turn)
        if turn == 0:
            self._begin()
        started = time.monotonic()
        self._compare()
        self._secured.check()
        if last:
            self._report(f"  {server.name} had the last look")
            self._stop_clients()
            server.stop()
            return
        self._end_transactions()
        self._work.turn(turn)
        self._secured.turn(turn)
        self._end = self._chance.choice(list(End))
        self._begin_transactions()
        self._table.check_untouched()
        self._table.write(turn)
        self._settle()
        self._table.wait_compacted()
        self._before = self._look()
        self._hand_over(server)
        self._table.check_progress(server)
        faults = faults_in_files(self._hands.logs())
        assert not faults, f"after turn {turn} of {server.name}: {faults[:5]}"
        self._tell(server, turn, started - began, began)

    def _look(self, groups: Collection[str] = ()) -> View:
        """See what has to stay the same when this turn ends, and check the table, which does not."""
        view = self._looker.look(groups)
        self._table.check(view)
        if self._end is End.BUSY_KILL:
            view = view.without(
                (STREAM, PAYMENTS), [*self._live_groups(), *NAMES.values(), *self._paid_groups()]
            )
        return view.without_records(TABLE)

    def _hand_over(self, server: Server) -> None:
        match self._end:
            case End.STOP:
                server.stop()
            case End.KILL:
                self._table.interrupt(server)
            case End.BUSY_KILL:
                self._go_busy()
                time.sleep(self._chance.uniform(0, LONGEST_BEFORE_A_KILL_S))
                server.kill()

    def _tell(self, server: Server, turn: int, start_s: float, began: float) -> None:
        self._report(
            f"  turn {turn + 1}: {server.name} started in {start_s:.0f} s, and ended by {self._end.value} "
            f"after {time.monotonic() - began:.0f} s; {self._producer.sent} numbers, "
            f"{len(self._work.topics)} topics, "
            f"{sum(len(each.committed) for each in self._transactions)} transactions committed, "
            f"{self._table.interrupted} compactions interrupted"
        )

    def _begin(self) -> None:
        self._work.create(STREAM, STREAM_PARTITIONS)
        self._work.create(PAYMENTS, PAYMENTS_PARTITIONS)
        self._work.create(TABLE, 1, **{key.replace(".", "_"): value for key, value in CONFIG.items()})
        self._producer.start()
        for consumer in self._consumers:
            consumer.start()
        for transactions in self._transactions:
            transactions.start()

    def _compare(self) -> None:
        """What was seen before the directory changed hands is seen now."""
        if self._before is None:
            return
        self._producer.hold()
        after = self._look(self._before.groups.keys())
        different = self._before.differences(after)
        assert not different, "\n".join([f"after {self._end.value}:", *different])

    def _end_transactions(self) -> None:
        for transactions in self._transactions:
            transactions.finish(self._chance)
            transactions.start()

    def _begin_transactions(self) -> None:
        """Each commits, aborts, or stays open for the other broker."""
        for transactions in self._transactions:
            transactions.begin()
            if self._end is End.BUSY_KILL:
                continue
            fate = self._chance.choice(("commit", "abort", "leave open", "leave open"))
            if fate != "leave open":
                transactions.end(commit=fate == "commit")

    def _go_busy(self) -> None:
        self._producer.go_on()
        for transactions in self._transactions:
            transactions.begin_to_commit()

    def _settle(self) -> None:
        """Let the live clients work for a moment, then rest; check what they should have."""
        self._producer.go_on()
        time.sleep(1.0)
        self._producer.hold()
        expected = self._producer.expected()
        try:
            each(self._consumers, lambda consumer: consumer.wait_read(len(expected)))
        except AssertionError as error:
            unloaded = self._hands.unloaded()
            raise AssertionError("\n".join(map(str, [error, *unloaded]))) from error
        view = self._looker.look(with_tools=False)
        for partition in range(STREAM_PARTITIONS):
            found = _values(view, STREAM, partition)
            assert found == expected, f"{STREAM}-{partition}: {_not_once(found, expected)}"
        for partition in range(PAYMENTS_PARTITIONS):
            found = sorted(_values(view, PAYMENTS, partition))
            done = sorted(value for known in self._transactions for value in known.committed)
            # An open transaction holds up readers of committed data.
            if not any(known.is_open for known in self._transactions):
                assert found == done, f"{PAYMENTS}-{partition}: {_not_once(found, done)}"
        for transactions in self._transactions:
            committed = view.offsets.get(transactions.group, {}).get((PAYMENTS, transactions.place), -1)
            assert committed == transactions.offset, (transactions.group, committed, transactions.offset)

    def _live_groups(self) -> list[str]:
        return [consumer.group for consumer in self._consumers]

    def _paid_groups(self) -> list[str]:
        return [transactions.group for transactions in self._transactions]


def _paid_group(name: str, number: int) -> str:
    """librdkafka passes only ASCII on in the metadata of a group."""
    return f"{name if name.isascii() else 'ascii'}-{number}-paid"


def _values(view: View, topic: str, partition: int) -> list[bytes]:
    return [record[2] for record in view.partitions[topic, partition].committed]  # type: ignore[index]


def _not_once(found: list[bytes], expected: list[bytes]) -> str:
    lost = sorted(set(expected) - set(found))
    more = sorted(set(found) - set(expected))
    return f"lost {lost[:5]}, not expected {more[:5]}, {len(found)} of {len(expected)}"

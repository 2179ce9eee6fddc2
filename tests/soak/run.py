"""A soak: a schedule of faults and changes from one seed, and what must hold when it is over."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import attrs

from tests.clients.exactly_once.pipeline import PARTITIONS as PIPELINE_PARTITIONS
from tests.clients.exactly_once.pipeline import WORKERS, Pipeline
from tests.clients.exactly_once.test_exactly_once import confluent_worker, java_worker
from tests.clients.groups.kinds import JavaKind, PythonKind
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ClientError

from .broker import SoakBroker
from .changes import Changes
from .cleaned import COMPACTED, Cleaned
from .cleaned import TOPICS as CLEANED_TOPICS
from .loads import PARTITIONS, Readers, Writer, start_writers, wait_for_writers, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAUSE_S: Final = (0.2, 2.0)
"""Between two events."""
CALM_S: Final = 8.0
"""Now and then nothing happens, so that clients make progress."""
LONGEST_STOP_S: Final = 3.0
REPLACEMENT_S: Final = 3.0
_MARKS: Final = (".log.cleaned", ".swap", ".swap")
MOST_OPEN_FILES: Final = 400
MOST_RESIDENT_MB: Final = 300.0
_CLASSIC: Final = {
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "500",
    "auto.commit.interval.ms": "500",
}
_OLD_RELEASE: Final = "0.11.0.3"


@attrs.define
class Soak:
    """One run in a folder; `report` is given a line for each event and finding."""

    folder: Path
    seed: int
    with_java: bool
    report: Callable[[str], None]
    events: dict[str, int] = attrs.field(factory=dict[str, int])
    refused: int = 0
    cleaned: Cleaned = attrs.field(init=False)
    _choose: random.Random = attrs.field(init=False)
    _broker: SoakBroker = attrs.field(init=False)
    _writers: list[Writer] = attrs.field(factory=list[Writer])
    _readers: list[Readers] = attrs.field(factory=list[Readers])
    _pipelines: list[Pipeline] = attrs.field(factory=list[Pipeline])
    _changes: Changes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._choose = random.Random(self.seed)
        self._broker = SoakBroker(self.folder / "broker")
        self.cleaned = Cleaned(self._broker, self.folder, self.report)

    def run(self, seconds: float) -> None:
        """Start everything, let events happen for so long, and check.

        Raises:
            AssertionError: something that must hold does not; the message says what.
        """
        with ExitStack() as running:
            running.callback(self._broker.disk.unmount)
            running.callback(self._broker.kill)
            self._broker.start()
            self._start_loads(running)
            self._suffer(time.monotonic() + seconds)
            self._finish()
            self._check()

    def _start_loads(self, running: ExitStack) -> None:
        self._writers = start_writers(self._broker, self.folder)
        for writer in self._writers:
            running.callback(writer.kill)
        self.cleaned.start(running)
        wait_for_writers(self._writers)
        self.cleaned.wait_until_begun()
        for readers in self._groups():
            readers.start()
            running.callback(readers.kill)
            self._readers.append(readers)
        commands = {"orders": confluent_worker, **({"bills": java_worker} if self.with_java else {})}
        for name, command in commands.items():
            pipeline = Pipeline(self._broker, command, self.folder, name)
            self._pipelines.append(running.enter_context(pipeline))
        written = [(writer.topic, PARTITIONS) for writer in self._writers]
        piped = [
            (topic, PIPELINE_PARTITIONS)
            for pipeline in self._pipelines
            for topic in (pipeline.name, pipeline.output_topic)
        ]
        cleaned = [(topic, PARTITIONS) for topic in CLEANED_TOPICS]
        self._changes = Changes(self._broker, [*written, *piped], cleaned, self._choose)

    def _groups(self) -> list[Readers]:
        """Groups of both protocols, of new and old clients, spread over the topics that start at 0."""
        first, second, third = (writer.topic for writer in self._writers)
        at = self._broker.bootstrap
        confluent = PythonKind("confluent_kafka")
        groups = [
            Readers(confluent, {"group.protocol": "consumer", "auto.commit.interval.ms": "500"}, at, first),
            Readers(PythonKind("aiokafka"), {"session.timeout.ms": "10000"}, at, second),
            Readers(confluent, _CLASSIC, at, third),
        ]
        if self.with_java:
            # A client from before the times of tombstones in batches of compacted segments.
            groups.append(Readers(JavaKind(_OLD_RELEASE), _CLASSIC, at, COMPACTED, is_compacted=True))
        return groups

    def _suffer(self, deadline: float) -> None:
        events = self._events()
        while (left := deadline - time.monotonic()) > 0:
            (event,) = self._choose.choices([each for each, _ in events], [weight for _, weight in events])
            self._perform(event, left)
            for readers in self._readers:
                readers.replace_ended()
            for pipeline in self._pipelines:
                pipeline.replace_ended()
            self.cleaned.look()
            time.sleep(self._choose.uniform(*PAUSE_S))

    def _perform(self, event: Callable[[], str], left_s: float) -> None:
        try:
            said = event()
        except ClientError as error:
            self.refused += 1
            said = f"{event.__name__.strip('_')}: {type(error).__name__}: {error}"
        name = event.__name__.strip("_")
        self.events[name] = self.events.get(name, 0) + 1
        self.report(f"{left_s:6.0f} s left  {said}")

    def _events(self) -> list[tuple[Callable[[], str], int]]:
        """What may happen, and how often in relation to the others."""
        return [
            (self._kill_broker, 3),
            (self._restart_broker, 2),
            (self._cut_power, 3),
            (self._end_in_replacement, 4),
            (self._pause_broker, 1),
            (self._fill_disk, 4),
            (self._produce_inputs, 6),
            (self._kill_worker, 3),
            (self._change_member, 3),
            (self._stay_calm, 3),
            (self._changes.churn_topic, 5),
            (self._changes.configure_topic, 2),
            (self._changes.move, 3),
            (self._changes.move_cleaned, 4),
            (self._kill_keyed_writer, 2),
        ]

    def _kill_broker(self) -> str:
        self._broker.kill()
        self._broker.start()
        return "kill the broker"

    def _restart_broker(self) -> str:
        self._broker.stop()
        self._broker.start()
        return "restart the broker"

    def _cut_power(self) -> str:
        before = self._broker.torn_bytes
        self._broker.cut_power(self._choose)
        self._broker.start()
        return f"cut the broker's power: {self._broker.torn_bytes - before} bytes torn"

    def _end_in_replacement(self) -> str:
        """Kill the broker, or cut its power, while segments are written or replaced."""
        mark = self._choose.choice(_MARKS)
        found = self.cleaned.wait_for_replacement(mark, REPLACEMENT_S)
        end = self._choose.choice((self._kill_broker, self._cut_power))
        return f"{end()}, {'at' if found else 'no'} *{mark}"

    def _pause_broker(self) -> str:
        seconds = self._choose.uniform(0, LONGEST_STOP_S)
        self._broker.pause(seconds)
        return f"pause the broker for {seconds:.1f} s"

    def _fill_disk(self) -> str:
        """Let the disk be full for a moment, in which the broker perhaps ends."""
        end = self._choose.choice((None, None, self._kill_broker, self._restart_broker, self._cut_power))
        seconds = self._choose.uniform(0, LONGEST_STOP_S)
        self._broker.disk.fill()
        try:
            time.sleep(seconds)
            also = end() if end is not None else "nothing else"
            time.sleep(seconds)
        finally:
            self._broker.disk.free()
        return f"fill the disk for {2 * seconds:.1f} s, and {also}"

    def _produce_inputs(self) -> str:
        for pipeline in self._pipelines:
            pipeline.produce()
        return "produce inputs of the pipelines"

    def _kill_worker(self) -> str:
        pipeline, number = self._choose.choice(self._pipelines), self._choose.randrange(WORKERS)
        pipeline.kill_worker(number)
        return f"kill worker {number} of {pipeline.name}"

    def _kill_keyed_writer(self) -> str:
        return self.cleaned.kill_writer(self._choose)

    def _change_member(self) -> str:
        return self._choose.choice(self._readers).change_member(self._choose)

    def _stay_calm(self) -> str:
        time.sleep(CALM_S)
        return f"calm: {self._broker.resident_mb:.0f} MB, {self._broker.open_files} open files"

    def _finish(self) -> None:
        """Have every client finish what it has begun, with a broker that stays."""
        self.report("waiting for the clients to finish")
        for writer in self._writers:
            writer.finish()
        self.cleaned.finish()
        for pipeline in self._pipelines:
            pipeline.finish()

    def _check(self) -> None:
        with BlockingClient(self._broker.bootstrap) as client:
            for readers in self._readers:
                readers.wait_for_all(client)
                self.report(f"{readers.group}: all records read, {readers.replaced} members gave up")
            self._check_contents(client)
        self._check_broker()
        self._broker.stop()
        self._broker.start()
        with BlockingClient(self._broker.bootstrap) as client:
            self._check_contents(client)
        self._broker.stop()

    def _check_contents(self, client: BlockingClient) -> None:
        for writer in self._writers:
            found = writer.check(client)
            self.report(
                f"{writer.topic}: {found} records, {writer.acknowledged} acknowledged, once, in order"
            )
        for pipeline in self._pipelines:
            output = sorted(pipeline.output())
            assert output == sorted(pipeline.produced), f"{pipeline.name}: not every input came out once"
            self.report(f"{pipeline.name}: {len(output)} inputs came out once, {pipeline.kills} kills")
        self.cleaned.check(client)

    def _check_broker(self) -> None:
        # Deleted files are closed within a second or two.
        wait_until(
            lambda: self._broker.open_files <= MOST_OPEN_FILES,
            lambda: f"{self._broker.open_files} files are open in the broker",
        )
        resident = self._broker.resident_mb
        assert resident <= MOST_RESIDENT_MB, f"the broker holds {resident:.0f} MB"
        bad = self._broker.bad_lines()
        assert not bad, f"{len(bad)} errors in the broker's log, the first: {bad[0]}"
        self.report(
            f"broker: {self._broker.lives} lives, {self._broker.torn_bytes} bytes torn, {resident:.0f} MB, "
            f"{self._broker.open_files} open files, no error in its log"
        )

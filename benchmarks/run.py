"""Goes through a plan: brokers up, measured in alternation, and down again whatever happens."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import attrs

from .brokers import KAFKA, TIDELOG
from .results import MACHINE, Results
from .scenarios import RunningBroker, idle_memory, memory_after_load, warm_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .brokers import BrokerKind
    from .plan import Plan
    from .progress import Progress
    from .rows import Sample
    from .scenarios import Bench, BrokerScenario, LaunchScenario


@attrs.frozen
class Step:
    """One measurement of one subject."""

    subject: str
    title: str
    measure: Callable[[], Sequence[Sample]]


@attrs.define
class Run:
    """One run of a plan against some kinds of broker."""

    bench: Bench
    plan: Plan
    kinds: Sequence[BrokerKind]
    progress: Progress
    results: Results = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        others = (kind.key for kind in self.kinds if kind.key != TIDELOG)
        self.results = Results(self.plan.rows, next(others, KAFKA))

    def execute(self) -> Results:
        """Measure everything. What fails is noted in the results' failures, and the rest goes on.

        Every process that was started has ended when this returns or raises.
        """
        with self.progress.of(self._count_steps()):
            for step in (*self._machine_steps(), *self._package_steps()):
                self._do(step)
            self._do_launches()
            if self.plan.loads or self.plan.memory:
                self._load_brokers()
        return self.results

    def _count_steps(self) -> int:
        repeats, plan = self.bench.effort.repeats, self.plan
        first = (self._machine_steps(), self._package_steps(), self._launch_steps())
        steps = sum(len(list(each)) for each in first)
        if plan.loads or plan.memory:
            # Beside the loads: start, warm-up.
            steps += (2 + repeats * len(plan.loads) + plan.memory) * len(self.kinds)
        return steps

    def _do(self, step: Step) -> bool:
        """False when the measurement failed."""
        self.progress.step(step.title)
        try:
            self.results.add(step.subject, step.measure())
        except Exception as error:
            self.results.failures.append(f"{step.title}: {type(error).__name__}: {error}")
            return False
        return True

    def _do_launches(self) -> None:
        if self.bench.effort.launches_at_once == 1:
            for step in self._launch_steps():
                self._do(step)
            return
        with ThreadPoolExecutor(self.bench.effort.launches_at_once) as pool:
            # When this is interrupted, those that were not begun are left out.
            list(pool.map(self._do, self._launch_steps()))

    def _machine_steps(self) -> Iterator[Step]:
        for scenario in self.plan.machine:
            for _ in range(self.bench.effort.repeats):
                yield Step(MACHINE, scenario.name, partial(scenario.measure, self.bench))

    def _package_steps(self) -> Iterator[Step]:
        for scenario in self.plan.packages:
            for _ in range(self.bench.effort.repeats):
                for subject in (TIDELOG, *scenario.rows[0].packages):
                    measure = partial(scenario.measure, self.bench, subject)
                    yield Step(subject, f"{scenario.name}, {subject}", measure)

    def _launch_steps(self) -> Iterator[Step]:
        for scenario in self.plan.launches:
            for _ in range(self.bench.effort.repeats):
                yield from self._launches(scenario)
        for scenario in self.plan.sessions:
            yield from self._launches(scenario)

    def _launches(self, scenario: LaunchScenario) -> Iterator[Step]:
        for kind in self.kinds:
            if scenario.applies_to(kind):
                title = f"{scenario.name}, {kind.title}"
                yield Step(kind.key, title, partial(self._launch, scenario, kind))

    def _launch(self, scenario: LaunchScenario, kind: BrokerKind) -> Sequence[Sample]:
        with TemporaryDirectory(dir=self.bench.folder, prefix=f"{kind.key}-") as work_dir:
            return scenario.measure(self.bench, kind, Path(work_dir))

    def _load_brokers(self) -> None:
        with ExitStack() as running:
            brokers = [each for each in map(partial(self._start, running), self.kinds) if each]
            for broker in brokers:
                self._load(broker, "warm-up", partial(_warm_up, self.bench, broker))
            for scenario in self.plan.loads:
                self._alternate(scenario, brokers)
            for broker in brokers if self.plan.memory else ():
                self._load(broker, "memory after load", partial(memory_after_load, broker))

    def _alternate(self, scenario: BrokerScenario, brokers: Sequence[RunningBroker]) -> None:
        """Brokers take turns; one that fails is not asked for the same again."""
        failed: set[str] = set()
        for _ in range(self.bench.effort.repeats):
            for broker in brokers:
                if broker.kind.key in failed:
                    self.progress.step(f"{scenario.name}, {broker.kind.title}: left out")
                elif not self._load(broker, scenario.name, partial(scenario.measure, self.bench, broker)):
                    failed.add(broker.kind.key)

    def _start(self, running: ExitStack, kind: BrokerKind) -> RunningBroker | None:
        """A broker that ends with `running`; None when it does not start."""
        server = kind.server(self.bench.folder / kind.key)
        running.callback(server.stop)
        started: list[RunningBroker] = []

        def start() -> Sequence[Sample]:
            server.start()
            started.append(RunningBroker.of(kind, server))
            return idle_memory(self.bench, started[0]) if self.plan.memory else ()

        self._do(Step(kind.key, f"start, {kind.title}", start))
        return started[0] if started else None

    def _load(self, broker: RunningBroker, name: str, measure: Callable[[], Sequence[Sample]]) -> bool:
        """False when it failed; what the broker had to say is noted too."""
        measured = self._do(_step(broker, name, measure))
        if not measured:
            process = broker.server.process
            state = "goes on running" if process.is_running else "ended by itself"
            self.results.failures.append(str(process.failed(state)))
        return measured


def _step(broker: RunningBroker, name: str, measure: Callable[[], Sequence[Sample]]) -> Step:
    return Step(broker.kind.key, f"{name}, {broker.kind.title}", measure)


def _warm_up(bench: Bench, broker: RunningBroker) -> Sequence[Sample]:
    warm_up(bench, broker)
    return ()

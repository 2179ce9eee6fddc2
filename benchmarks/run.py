"""Executes a plan: brokers up, measured in alternation, and down again whatever happens."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

import attrs

from .brokers import KAFKA, TIDELOG
from .procfs import OtherProcesses, share_of_machine
from .results import MACHINE, Results
from .rows import OTHER_SHARE
from .scenarios import RunningBroker, idle_memory, memory_after_load, repeat_until_warm, warm_up
from .turns import turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .brokers import BrokerKind, BrokerServer
    from .plan import Plan
    from .progress import Progress
    from .rows import Row, Sample
    from .scenarios import Bench, BrokerScenario, ConfiguredScenario, LaunchScenario


@attrs.frozen
class Step:
    """One slice of one subject, or what has to be done before; `rows` are those that it is for."""

    name: str
    subject: str
    title: str
    rows: Sequence[Row]
    measure: Callable[[], Sequence[Sample]]


@attrs.define
class Run:
    """One run of a plan against some kinds of broker."""

    bench: Bench
    plan: Plan
    kinds: Sequence[BrokerKind]
    progress: Progress
    results: Results = attrs.field(init=False)
    _failed: set[tuple[str, str]] = attrs.field(factory=set[tuple[str, str]], init=False)
    """Scenarios and subjects of which a slice has failed: no further one is measured."""

    def __attrs_post_init__(self) -> None:
        others = (kind.key for kind in self.kinds if kind.key != TIDELOG)
        self.results = Results(self.plan.rows, next(others, KAFKA))

    def execute(self) -> Results:
        """Measure everything. What fails is noted in the results' failures, and the rest is measured.

        Every process that was started has ended when this returns or raises.
        """
        with self.progress.of(self._count_steps()):
            for step in (*self._machine_steps(), *self._package_steps()):
                self._do(step)
            self._do_launches()
            for scenario in self.plan.configured:
                self._load_own_brokers([scenario], self.bench.folder, self._slices_of(scenario))
            if self.plan.on_disk:
                self._load_own_brokers(self.plan.on_disk, self.bench.disk, self.bench.effort.slices)
            if self.plan.loads or self.plan.memory:
                self._load_brokers()
        return self.results

    def _count_steps(self) -> int:
        plan, kinds = self.plan, len(self.kinds)
        first = (self._machine_steps(), self._package_steps(), self._launch_steps())
        steps = sum(len(list(each)) for each in first)
        for scenario in plan.configured:
            applying = len(self._applying(scenario))
            # Beside the slices: the start.
            steps += (1 + self._turns_of(self._slices_of(scenario))) * applying
        if plan.on_disk:
            steps += (1 + len(plan.on_disk) * self._turns_of(self.bench.effort.slices)) * kinds
        if plan.loads or plan.memory:
            # Beside the loads: start, warm-up.
            loads = len(plan.loads) * self._turns_of(self.bench.effort.slices)
            steps += (1 + bool(self.bench.effort.warm_up_cpu_s) + loads + plan.memory) * kinds
        return steps

    def _turns_of(self, slices: int) -> int:
        return slices + bool(self.bench.effort.warm_up_cpu_s)

    def _do(self, step: Step) -> bool:
        """Return False when the measurement has failed; one that has failed before is left out."""
        self.progress.step(step.name)
        if (step.name, step.subject) in self._failed:
            return True
        others, began = OtherProcesses(os.getpid()), perf_counter()
        try:
            samples = step.measure()
        except Exception as error:
            self._failed.add((step.name, step.subject))
            self.results.fail(step.subject, step.rows, step.title, f"{type(error).__name__}: {error}")
            return False
        other_s, _ = others.read()
        share = share_of_machine(other_s, perf_counter() - began)
        self.results.add(step.subject, (with_share(sample, share) for sample in samples))
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
                measure = partial(scenario.measure, self.bench)
                yield Step(scenario.name, MACHINE, scenario.name, scenario.rows, measure)

    def _package_steps(self) -> Iterator[Step]:
        for scenario in self.plan.packages:
            for subject in turns((TIDELOG, *scenario.rows[0].packages), self.bench.effort.slices):
                measure = partial(scenario.measure, self.bench, subject)
                yield Step(scenario.name, subject, f"{scenario.name}, {subject}", scenario.rows, measure)

    def _launch_steps(self) -> Iterator[Step]:
        for scenario in self.plan.launches:
            yield from self._launches(scenario, self._slices_of(scenario))
        for scenario in self.plan.sessions:
            yield from self._launches(scenario, 1)

    def _launches(self, scenario: LaunchScenario, slices: int) -> Iterator[Step]:
        for kind in turns(self._applying(scenario), slices):
            title = f"{scenario.name}, {kind.title}"
            yield Step(scenario.name, kind.key, title, scenario.rows, partial(self._launch, scenario, kind))

    def _launch(self, scenario: LaunchScenario, kind: BrokerKind) -> Sequence[Sample]:
        with TemporaryDirectory(dir=self.bench.folder, prefix=f"{kind.key}-") as work_dir:
            return scenario.measure(self.bench, kind, Path(work_dir))

    def _applying(self, scenario: LaunchScenario | ConfiguredScenario) -> list[BrokerKind]:
        return [kind for kind in self.kinds if scenario.applies_to(kind)]

    def _slices_of(self, scenario: LaunchScenario | ConfiguredScenario) -> int:
        effort = self.bench.effort
        return effort.launch_slices if len(self._applying(scenario)) > 1 else effort.repeats

    def _load_own_brokers(
        self, scenarios: Sequence[ConfiguredScenario], base: Path | None, slices: int
    ) -> None:
        """Start brokers in a new folder in `base` with the settings of the scenarios, which are equal."""
        if base is None:
            self.results.failures.append("no folder is on a disk: --data-dir names another one")
            return
        first, *_ = scenarios
        with TemporaryDirectory(dir=base) as folder, ExitStack() as running:
            brokers: list[RunningBroker] = []
            for kind in self._applying(first):
                server = kind.server(Path(folder, kind.key), first.settings)
                start = partial(self._start, running, brokers, kind, server)
                self._do(Step(first.name, kind.key, f"start, {kind.title}", first.rows, start))
            for scenario in scenarios:
                self._alternate(scenario, brokers, slices)

    def _load_brokers(self) -> None:
        with ExitStack() as running:
            brokers: list[RunningBroker] = []
            for kind in self.kinds:
                server = kind.server(self.bench.folder / kind.key)
                start = partial(self._start, running, brokers, kind, server, memory=self.plan.memory)
                self._do(Step("start", kind.key, f"start, {kind.title}", (), start))
            for broker in brokers if self.bench.effort.warm_up_cpu_s else ():
                self._load(broker, "warm-up", (), partial(_uncounted, warm_up, self.bench, broker))
            for scenario in self.plan.loads:
                self._alternate(scenario, brokers, self.bench.effort.slices)
            for broker in brokers if self.plan.memory else ():
                self._load(broker, "memory after load", (), partial(memory_after_load, broker))

    def _start(
        self,
        running: ExitStack,
        brokers: list[RunningBroker],
        kind: BrokerKind,
        server: BrokerServer,
        *,
        memory: bool = False,
    ) -> Sequence[Sample]:
        """Add to `brokers` one that ends with `running`."""
        running.callback(server.stop)
        server.start()
        broker = RunningBroker.of(kind, server)
        running.enter_context(broker.loads)
        brokers.append(broker)
        return idle_memory(self.bench, broker) if memory else ()

    def _alternate(self, scenario: BrokerScenario, brokers: Sequence[RunningBroker], slices: int) -> None:
        """Brokers take turns, after some slices of each that are not counted."""
        for broker in brokers if self.bench.effort.warm_up_cpu_s else ():
            measure = partial(scenario.measure, self.bench, broker)
            cpu_s = self.bench.effort.row_warm_up_cpu_s
            warm_up_row = partial(_uncounted, repeat_until_warm, broker, measure, cpu_s)
            self._load(broker, scenario.name, scenario.rows, warm_up_row)
        for broker in turns(brokers, slices):
            self._load(broker, scenario.name, scenario.rows, partial(scenario.measure, self.bench, broker))
        for broker in brokers:
            broker.loads.end()

    def _load(
        self, broker: RunningBroker, name: str, rows: Sequence[Row], measure: Callable[[], Sequence[Sample]]
    ) -> None:
        """Measure; when that fails, what the broker has printed is noted too."""
        if not self._do(Step(name, broker.kind.key, f"{name}, {broker.kind.title}", rows, measure)):
            process = broker.server.process
            state = "is still running" if process.is_running else "ended by itself"
            self.results.failures.append(str(process.failed(state)))


def _uncounted(measure: Callable[..., object], *arguments: object) -> Sequence[Sample]:
    measure(*arguments)
    return ()


def with_share(sample: Sample, other_share: float) -> Sample:
    """Add what others took of the machine, unless the sample has the share of a shorter time within."""
    return attrs.evolve(sample, details={OTHER_SHARE: other_share, **sample.details})

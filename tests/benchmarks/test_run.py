from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import attrs
import pytest
from rich.console import Console

from benchmarks.brokers import BASELINE, KAFKA, NO_SETTINGS, TIDELOG, BaselineKind
from benchmarks.effort import SMOKE
from benchmarks.plan import Plan
from benchmarks.progress import Progress
from benchmarks.ratios import Ratio
from benchmarks.results import MACHINE
from benchmarks.rows import OTHER_SHARE, Better, Row, Sample, Verdict, ratio_at_most
from benchmarks.run import Run, with_share
from benchmarks.scenarios import Bench, RunningBroker
from tests.deadlines import DEADLINE_S
from tests.peers import ServerFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.brokers import BrokerKind
    from tests.peers import ServerProcess


@attrs.define
class FakeProcess:
    is_running: bool = False

    def failed(self, what: str) -> ServerFailedError:
        return ServerFailedError(f"the broker {what}")


@attrs.define
class FakeServer:
    """Notes what is done to it."""

    name: str
    events: list[str]
    fails_to_start: bool = False
    port: int = 1
    tls_port: int = 2
    bootstrap: str = "127.0.0.1:1"
    pid: int = os.getpid()
    data_dir: Path = Path("/nowhere")
    fake_process: FakeProcess = attrs.field(factory=FakeProcess)

    @property
    def process(self) -> ServerProcess:
        return self.fake_process  # type: ignore[return-value] # as much of one as a run looks at

    def prepare(self) -> None: ...

    def start(self) -> None:
        self.events.append(f"{self.name} starts")
        if self.fails_to_start:
            raise OSError("no such broker")
        self.fake_process.is_running = True

    def stop(self) -> int:
        self.events.append(f"{self.name} stops")
        self.fake_process.is_running = False
        return 0

    def kill(self) -> None: ...


@attrs.define
class FakeKind:
    key: str
    events: list[str]
    fails_to_start: bool = False
    settings: list[Mapping[str, str]] = attrs.field(factory=list["Mapping[str, str]"])
    compiles_while_it_runs: bool = False
    folders: list[Path] = attrs.field(factory=list[Path])

    @property
    def title(self) -> str:
        return self.key

    def server(self, work_dir: Path, settings: Mapping[str, str] = NO_SETTINGS) -> FakeServer:
        self.settings.append(settings)
        self.folders.append(work_dir)
        return FakeServer(self.key, self.events, self.fails_to_start)

    def describe(self) -> dict[str, object]:
        return {}


@attrs.define
class FakeLoad:
    """A figure that counts up, or an error for one of the brokers."""

    name: str
    events: list[str]
    fails_on: str = ""
    error: BaseException = attrs.field(factory=lambda: RuntimeError("it broke"))

    @property
    def rows(self) -> Sequence[Row]:
        return [Row(self.name, self.name, "MB/s", Better.HIGHER)]

    def measure(self, bench: Bench, broker: RunningBroker) -> list[Sample]:
        self.events.append(f"{self.name} on {broker.kind.key}")
        if broker.kind.key == self.fails_on:
            raise self.error
        return [Sample(self.name, float(len(self.events)))]


@attrs.define
class FakeConfigured(FakeLoad):
    """The same on brokers of its own."""

    settings: Mapping[str, str] = attrs.field(factory=dict[str, str])

    def applies_to(self, kind: BrokerKind) -> bool:
        return True


@attrs.define
class FakeLimit:
    name: str = "limit"

    @property
    def rows(self) -> Sequence[Row]:
        return [Row(self.name, self.name, "MB/s", Better.NEITHER)]

    def measure(self, bench: Bench) -> list[Sample]:
        return [Sample(self.name, 7.0)]


@attrs.define
class FakeLaunch:
    """Is measured when another one is, too."""

    name: str
    both: threading.Barrier

    @property
    def rows(self) -> Sequence[Row]:
        return [Row(self.name, self.name, "s", Better.LOWER)]

    def applies_to(self, kind: BrokerKind) -> bool:
        return True

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        self.both.wait(DEADLINE_S)
        return [Sample(self.name, 1.0)]


@attrs.define
class FakePackages:
    """A figure per package."""

    figures: Mapping[str, float]
    name: str = "codec"

    @property
    def rows(self) -> Sequence[Row]:
        others = tuple(name for name in self.figures if name != TIDELOG)
        return [Row(self.name, self.name, "µs", Better.LOWER, (ratio_at_most(0.5),), packages=others)]

    def measure(self, bench: Bench, subject: str) -> list[Sample]:
        return [Sample(self.name, self.figures[subject])]


@attrs.define
class FakeSession:
    """Measures all repeats at once, on brokers of one kind."""

    kind: str
    name: str = "session"

    @property
    def rows(self) -> Sequence[Row]:
        return [Row(self.name, self.name, "ms", Better.LOWER)]

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == self.kind

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        assert work_dir.is_dir()
        return [Sample(self.name, float(number)) for number in range(bench.effort.repeats)]


def a_run(
    tmp_path: Path,
    loads: Sequence[FakeLoad],
    kinds: Sequence[FakeKind],
    output: io.StringIO | None = None,
    packages: Sequence[FakePackages] = (),
    launches: Sequence[FakeLaunch] = (),
    sessions: Sequence[FakeSession] = (),
    configured: Sequence[FakeConfigured] = (),
    on_disk: Sequence[FakeConfigured] = (),
    disk: Path | None = None,
    slices: int = 2,
    warm_up_cpu_s: float = 0.0,
) -> Run:
    effort = attrs.evolve(
        SMOKE,
        repeats=2,
        slices=slices,
        launch_slices=slices,
        settle_s=0.0,
        warm_up_cpu_s=warm_up_cpu_s,
        row_warm_up_cpu_s=warm_up_cpu_s,
    )
    plan = Plan(
        machine=[FakeLimit()],
        packages=packages,
        launches=launches,
        sessions=sessions,
        configured=configured,
        on_disk=on_disk,
        loads=loads,
        memory=False,
    )
    progress = Progress(Console(file=output or io.StringIO(), width=100))
    return Run(Bench(effort, tmp_path, disk), plan, kinds, progress)


def test_brokers_take_turns_and_are_stopped(tmp_path: Path) -> None:
    events: list[str] = []
    run = a_run(tmp_path, [FakeLoad("load", events)], [FakeKind("a", events), FakeKind("b", events)])
    results = run.execute()
    assert events == [
        "a starts",
        "b starts",
        *["load on a", "load on b", "load on b", "load on a"],
        "b stops",
        "a stops",
    ]
    assert results.failures == []
    assert [len(results.samples("load", key)) for key in ("a", "b")] == [2, 2]
    assert [sample.value for sample in results.samples("limit", MACHINE)] == [7.0, 7.0]


def test_a_failure_is_noted_and_the_rest_goes_on(tmp_path: Path) -> None:
    events: list[str] = []
    loads = [FakeLoad("bad", events, fails_on="a"), FakeLoad("good", events)]
    results = a_run(tmp_path, loads, [FakeKind("a", events), FakeKind("b", events)]).execute()
    assert results.failures == ["bad, a: RuntimeError: it broke", "the broker is still running"]
    assert events.count("bad on a") == 1
    assert results.subjects("bad") == ["b"]
    assert results.errors("bad") == {"a": "RuntimeError: it broke"}
    assert results.subjects("good") == ["a", "b"]
    assert results.errors("good") == {}


def test_a_broker_that_does_not_start_is_left_out(tmp_path: Path) -> None:
    events: list[str] = []
    kinds = [FakeKind("a", events, fails_to_start=True), FakeKind("b", events)]
    results = a_run(tmp_path, [FakeLoad("load", events)], kinds).execute()
    assert results.failures == ["start, a: OSError: no such broker"]
    assert results.subjects("load") == ["b"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)])
def test_whoever_interrupts_leaves_no_broker_behind(tmp_path: Path, error: BaseException) -> None:
    events: list[str] = []
    loads = [FakeLoad("load", events, fails_on="a", error=error)]
    run = a_run(tmp_path, loads, [FakeKind("a", events), FakeKind("b", events)])
    with pytest.raises(type(error)):
        run.execute()
    assert events[-2:] == ["b stops", "a stops"]


def test_progress_tells_each_scenario_once_where_there_is_no_terminal(tmp_path: Path) -> None:
    events: list[str] = []
    output = io.StringIO()
    a_run(tmp_path, [FakeLoad("load", events)], [FakeKind("a", events)], output).execute()
    lines = output.getvalue().splitlines()
    assert [line.partition(" ")[2] for line in lines] == ["limit", "start", "load"]
    assert lines[0].startswith("[1/5]")


def test_a_smoke_run_does_two_launches_at_once(tmp_path: Path) -> None:
    both = threading.Barrier(2)
    launches = [FakeLaunch("one", both), FakeLaunch("other", both)]
    results = a_run(tmp_path, [], [FakeKind("a", [])], launches=launches).execute()
    assert results.failures == []
    assert [len(results.samples(launch.name, "a")) for launch in launches] == [2, 2]


@pytest.mark.parametrize("peer", [KAFKA, BASELINE])
def test_ratios_divide_by_the_broker_beside_tidelog(tmp_path: Path, peer: str) -> None:
    events: list[str] = []
    kinds = [FakeKind(TIDELOG, events), FakeKind(peer, events)]
    results = a_run(tmp_path, [FakeLoad("load", events)], kinds).execute()
    first, second = (results.samples("load", key) for key in (TIDELOG, peer))
    pairs = [(ours.value, theirs.value) for ours, theirs in zip(first, second, strict=True)]
    # Which figure each slice has is its place in the order of all events.
    assert pairs == [(3.0, 4.0), (6.0, 5.0)]
    assert results.ratio("load") == Ratio.of(*zip(*pairs, strict=True))


def test_packages_are_measured_beside_each_other_without_a_broker(tmp_path: Path) -> None:
    packages = FakePackages({TIDELOG: 2.0, "slow": 8.0, "quick": 5.0})
    results = a_run(tmp_path, [], [], packages=[packages]).execute()
    assert results.failures == []
    assert {subject: len(results.samples("codec", subject)) for subject in packages.figures} == {
        TIDELOG: 2,
        "slow": 2,
        "quick": 2,
    }
    ratio = results.ratio("codec")
    assert ratio is not None
    assert ratio.value == pytest.approx(2.0 / 5.0)
    assert results.verdicts(packages.rows[0]) == [Verdict.UNDECIDED]


def test_the_first_slices_are_not_counted_and_a_jvm_has_more_of_them(tmp_path: Path) -> None:
    events: list[str] = []
    kinds = [FakeKind("a", events, compiles_while_it_runs=True), FakeKind("b", events)]
    configured = [FakeConfigured("load", events)]
    results = a_run(tmp_path, [], kinds, configured=configured, warm_up_cpu_s=1e9).execute()
    assert results.failures == []
    assert events == [
        "a starts",
        "b starts",
        *["load on a"] * 20,
        "load on b",
        *["load on a", "load on b", "load on b", "load on a"],
        *["b stops", "a stops"],
    ]
    assert [sample.value for sample in results.samples("load", "a")] == [24.0, 27.0]


def test_scenarios_with_settings_have_brokers_of_their_own(tmp_path: Path) -> None:
    events: list[str] = []
    kinds = [FakeKind("a", events), FakeKind("b", events, fails_to_start=True)]
    configured = FakeConfigured("load", events, settings={"key": "value"})
    results = a_run(tmp_path, [], kinds, configured=[configured]).execute()
    assert [kind.settings for kind in kinds] == [[{"key": "value"}]] * 2
    assert results.failures == ["start, b: OSError: no such broker"]
    assert results.errors("load") == {"b": "OSError: no such broker"}
    assert results.subjects("load") == ["a"]


def test_scenarios_on_a_disk_share_brokers_there(tmp_path: Path) -> None:
    events: list[str] = []
    kinds = [FakeKind("a", events)]
    on_disk = [FakeConfigured("one", events), FakeConfigured("other", events)]
    disk = tmp_path / "disk"
    disk.mkdir()
    results = a_run(tmp_path, [], kinds, on_disk=on_disk, disk=disk, slices=1).execute()
    assert results.failures == []
    assert events == ["a starts", "one on a", "other on a", "a stops"]
    assert [folder.parent.parent for folder in kinds[0].folders] == [disk]


def test_without_a_disk_its_scenarios_fail_and_say_why(tmp_path: Path) -> None:
    events: list[str] = []
    on_disk = [FakeConfigured("one", events)]
    results = a_run(tmp_path, [], [FakeKind("a", events)], on_disk=on_disk).execute()
    assert (events, results.failures) == ([], ["no folder is on a disk: --data-dir names another one"])


def test_each_sample_has_the_share_of_the_machine_that_others_took(tmp_path: Path) -> None:
    events: list[str] = []
    results = a_run(tmp_path, [FakeLoad("load", events)], [FakeKind("a", events)]).execute()
    shares = [sample.details[OTHER_SHARE] for sample in results.samples("load", "a")]
    assert all(isinstance(share, float) and 0 <= share <= 1 for share in shares)
    known = Sample("load", 1.0, {OTHER_SHARE: 0.25})
    assert with_share(known, 0.5) == known


@pytest.mark.parametrize("warm_up_cpu_s", [0.0, 1e-9])
def test_progress_counts_all_steps(tmp_path: Path, warm_up_cpu_s: float) -> None:
    events: list[str] = []
    steps: list[str] = []
    run = a_run(
        tmp_path,
        [] if warm_up_cpu_s else [FakeLoad("load", events)],
        [FakeKind("a", events), FakeKind("b", events)],
        packages=[FakePackages({TIDELOG: 1.0, "other": 2.0})],
        launches=[FakeLaunch("launch", threading.Barrier(2))],
        sessions=[FakeSession("a")],
        configured=[FakeConfigured("configured", events)],
        on_disk=[FakeConfigured("one", events), FakeConfigured("other", events)],
        disk=tmp_path,
        warm_up_cpu_s=warm_up_cpu_s,
    )
    with patch.object(run.progress, "step", steps.append), patch.object(run.progress, "of") as of:
        run.execute()
    of.assert_called_once_with(len(steps))


def test_a_session_measures_its_repeats_itself_and_once(tmp_path: Path) -> None:
    events: list[str] = []
    kinds = [FakeKind(TIDELOG, events), FakeKind(KAFKA, events)]
    results = a_run(tmp_path, [], kinds, sessions=[FakeSession(TIDELOG)]).execute()
    assert results.failures == []
    assert [sample.value for sample in results.samples("session", TIDELOG)] == [0.0, 1.0]
    assert results.subjects("session") == [TIDELOG]


def test_baseline_runs_with_its_settings_and_in_its_checkout(tmp_path: Path) -> None:
    kind = BaselineKind({"socket.busy.poll.us": "0"}, tmp_path / "before")
    assert kind.title == "tidelog with before, socket.busy.poll.us=0"
    command = kind.server(tmp_path).command()
    assert command[0] == str(tmp_path / "before" / ".venv" / "bin" / "python")
    assert "socket.busy.poll.us=0" in command
    assert BaselineKind({"a": "b"}).server(tmp_path).command()[0] == sys.executable

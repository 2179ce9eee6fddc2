"""What holds for every test: examples may take their time, and a peer that this machine lacks skips the test
that asks for it, except in CI.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import tomllib
from contextlib import contextmanager
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from hypothesis import Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from xdist.scheduler import LoadFileScheduling

from tests.in_memory import memory_folder
from tests.order import in_turn, place, unit_of_work
from tests.patient_clock import install_patient_clocks
from tests.peers import PeerUnavailableError
from tests.spark_session import running_spark
from tidelog.kernel import compiled
from tidelog.kernel.plugins.discovery import ENTRY_POINT_GROUP
from tidelog.kernel.records import compression
from tidelog.kernel.records.compression import register_codecs
from tidelog.plugins.compression import kafka_codecs

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyspark.sql import SparkSession
    from xdist.remote import Producer

# Machines differ in speed and may be shared: how long an example takes proves nothing.
# A check on one change must not fail for what another run could have found: there the examples are fixed.
# Those of an invariant that has a fault mostly fail within a few; `make explore` looks for what takes more.
# Nor is an example made smaller there: that takes minutes, and who mends it gets the same one.
settings.register_profile(
    "any speed",
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=40,
    phases=[Phase.explicit, Phase.generate] if "CI" in os.environ else list(Phase),
)
# A mutant is killed by the first example that fails; the smallest one interests nobody.
settings.register_profile(
    "mutants",
    max_examples=25,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    print_blob=False,
)
# `make explore`: other examples in each pass, and more where a test does not say how many.
settings.register_profile("explore", deadline=None, derandomize=False, max_examples=300)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "any speed")
settings.load_profile(PROFILE)
if PROFILE != "explore":
    # Hypothesis reads the source of each module for numbers and texts that a few examples then have. That
    # is a fifth of what collection takes, for values that forty examples hardly ever have in the right place.
    pytest.MonkeyPatch().setattr(providers, "_get_local_constants", Constants, raising=False)


install_patient_clocks(pytest.MonkeyPatch())

# Most tests use parts of a broker that has loaded no plugins.
register_codecs(kafka_codecs())


def only_cause(error: BaseException) -> BaseException:
    """The error itself, out of the groups that nurseries put round it."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        if len(group.exceptions) == 1:
            return only_cause(group.exceptions[0])
    return error


@contextmanager
def skipping_without_peer() -> Generator[None]:
    """A developer's machine may lack a peer; in CI that is a missing set-up step and stays an error."""
    try:
        yield
    except Exception as error:
        cause = only_cause(error)
        if os.environ.get("CI") or not isinstance(cause, PeerUnavailableError):
            raise
        pytest.skip(str(cause))


class NamesFailures:
    """Names each failed test at once: a run that is ended from outside has told what failed before."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write its name and the first line of its error."""
        if report.failed:
            reporter = self._config.pluginmanager.get_plugin("terminalreporter")
            crash = getattr(report.longrepr, "reprcrash", None)
            reason, *_ = str(getattr(crash, "message", report.longrepr)).split("\n", 1)
            cast("pytest.TerminalReporter", reporter).write(f"\n{report.nodeid} failed: {reason}\n")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse an editable installation that was made before its plugins, or what it compiled, changed."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(NamesFailures(config))
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    announced: dict[str, str] = project["entry-points"][ENTRY_POINT_GROUP]
    installed = {each.name: each.value for each in entry_points(group=ENTRY_POINT_GROUP)}
    if announced.items() - installed.items():
        pytest.exit(
            "the installed tidelog lacks plugins of pyproject.toml: "
            f"{', '.join(sorted(announced.keys() - installed.keys()))}. Install it again: {sys.executable} "
            "-m pip install --no-deps --no-build-isolation --editable .",
            returncode=4,
        )
    if stale := [module for module in compiled.MODULES if _is_older_than_its_source(module)]:
        pytest.exit(
            f"compiled before their sources changed: {', '.join(stale)}. Run `make test`", returncode=4
        )


def _is_older_than_its_source(module: str) -> bool:
    if not compiled.is_compiled(module):
        return False
    binary = Path(str(getattr(find_spec(module), "origin", "")))
    source = binary.with_name(f"{module.rpartition('.')[2]}.py")
    return binary.stat().st_mtime < source.stat().st_mtime


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest."""
    items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Collect the whole suite in another order in each process of xdist: they share what pytest compiles."""
    # Hardly anything of what collection makes is garbage, and each run would look at all of it.
    gc.disable()
    config = session.config
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None and config.args == config.getini("testpaths"):
        number = int(str(worker["workerid"]).removeprefix("gw"))
        config.args = in_turn(
            config.rootpath / "tests", number % worker["workercount"], worker["workercount"]
        )


class _FilesInUnits(LoadFileScheduling):  # type: ignore[misc]
    """As `--dist loadfile`, but files that share something costly go to one process."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of_work(nodeid)


@pytest.hookimpl(optionalhook=True)  # the plugin may be switched off
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Share out files as tests/order.py says."""
    return _FilesInUnits(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Hide what was made so far from the garbage collector, whose every run would look at it again."""
    gc.enable()
    gc.freeze()


class Opened:
    """Whether a file or a socket was opened since it was last asked."""

    def __init__(self) -> None:
        self._some = False
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, _: tuple[object, ...]) -> None:
        if event in ("open", "socket.__new__"):
            self._some = True

    def ask(self) -> bool:
        """Tell, and start over."""
        some, self._some = self._some, False
        return some


opened = Opened()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Collect garbage after a test that opened anything: what it left open fails this test, no later one."""
    try:
        return (yield)
    finally:
        if opened.ask():
            with failing_on_unraisable():
                gc.collect()
            # What outlives its test stays out of the next runs: they would take longer and longer.
            gc.freeze()


@contextmanager
def failing_on_unraisable() -> Generator[None]:
    """Fail for what finalizers could not raise: errors, and warnings of files and sockets left open."""
    seen: list[str] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda raised: seen.append(f"{raised.object!r}: {raised.exc_value!r}")
    try:
        yield
    finally:
        sys.unraisablehook = before
    if seen:
        pytest.fail("left by this test: " + "; ".join(seen), pytrace=False)


_BEGAN = pytest.StashKey[float]()
_seconds: Final = time.monotonic  # tests replace that one
_NEARLY: Final = 0.99  # the clock of pytest-timeout begins a little earlier


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Fixtures ask for peers."""
    item.stash[_BEGAN] = _seconds()
    with skipping_without_peer():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Tests ask for peers, and pytest-trio's fixtures run here too."""
    with skipping_without_peer(), keeping_the_reason():
        yield
    # To a test that expects a failure the one by pytest-timeout may be as good as any other.
    if _seconds() - item.stash[_BEGAN] >= _NEARLY * float(cast("str", item.config.getini("timeout"))):
        pytest.fail("it passed only as its time was up")


@pytest.fixture(autouse=True, scope="module")
def codecs_as_before() -> Generator[None]:
    """Forget the codecs that a module registered: all brokers of a process share them."""
    known = compression._codecs  # pyright: ignore[reportPrivateUsage]
    before = dict(known)
    yield
    known.clear()
    known.update(before)


@pytest.fixture
def tmp_path(tmp_path: Path, request: pytest.FixtureRequest) -> Generator[Path]:
    """Give tests that are marked `in_memory` a directory there."""
    node = cast("pytest.Item", request.node)
    memory = memory_folder()
    if memory is None or node.get_closest_marker("in_memory") is None:
        yield tmp_path
        return
    with TemporaryDirectory(prefix="tidelog-tests-", dir=memory) as name:
        yield Path(name)


@contextmanager
def keeping_the_reason() -> Generator[None]:
    """Give a skip inside of a trio test its reason back, which pytest-trio drops."""
    try:
        yield
    except pytest.skip.Exception as skipped:
        if skipped.msg or skipped.__context__ is None:
            raise
        pytest.skip(str(only_cause(skipped.__context__)))


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `spark` looks for files with relative names."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def spark(spark_folder: Path) -> Generator[SparkSession]:
    """The session of all tests with Spark in this process; tests/order.py has their files."""
    with running_spark(spark_folder) as session:
        yield session

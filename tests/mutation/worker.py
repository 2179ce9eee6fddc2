"""A process in a copy of the checkout with the test tools loaded: it forks a child for each run.

Where a text differs from the module's own in functions only, the child is the fork of a process that has
collected the tests before. Otherwise it collects them itself, and so imports the text.

It reads a `Run` as JSON from each line of its input and writes an `Outcome`. A code of -1 means that the run
took too long; others are pytest's.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import attrs
from pluggy import HookimplMarker

from tests.mutation.functions import change_functions, differs_in_functions_only

if TYPE_CHECKING:
    import pytest

# What every run imports; what belongs to the project is imported by the child, since it may be the mutant.
PRELOADED = (
    "hypothesis.strategies",
    "hypothesis.stateful",
    "hypothesis.extra",
    "_hypothesis_pytestplugin",
    "pytest",
    "pytest_trio",
    "trio.testing",
    "attrs",
    "click",
    "rich.console",
    "cramjam",
    "crc32c",
    "lz4.frame",
    "zstandard",
    "re2",
    "pluggy",
    "asyncio",
    "numpy",
    "pyarrow",
    "pyspark.sql.datasource",
    "importlib.metadata",
    "unittest.mock",
)
TIMED_OUT = -1
hookimpl = HookimplMarker("pytest")
_MEMORY_BYTES = 3 << 30
_OUTPUT_BYTES = 4_000
_OUTPUT = Path(".mutants-output")
_SEEN = Path(".mutants-seen.json")
"""What a run has seen of its tests, in the copy of the checkout."""


@attrs.frozen
class Run:
    module: str
    text: str
    tests: list[str]
    ignored: list[str]
    cpu_seconds: float
    wall_seconds: float
    preloaded: list[str] = attrs.field(factory=list[str])


@attrs.frozen
class Outcome:
    code: int
    seconds: float
    cpu_seconds: float
    output: str


class TestOrder:
    """A plugin of pytest: first the tests that have killed most mutants in the least time."""

    __test__ = False

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._kills: dict[str, int] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self._rank(item.nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        before = 0.0 if report.when == "setup" else self._seconds[name]
        self._seconds[name] = before + report.duration
        if report.failed:
            self._kills[name] = self._kills.get(name, 0) + 1

    def save(self) -> None:
        """Leave to the process that forked this one what was seen."""
        _SEEN.write_text(json.dumps([self._seconds, self._kills]))

    def load(self) -> None:
        """Take over what the child has seen, unless it was stopped."""
        with suppress(FileNotFoundError):
            self._seconds, self._kills = json.loads(_SEEN.read_text())
            _SEEN.unlink()

    def _rank(self, name: str) -> float:
        return self._seconds.get(name, 0.0) / (1 + 10 * self._kills.get(name, 0))


def main() -> None:
    worker = _Worker()
    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        run = Run(**json.loads(line))
        for name in run.preloaded:
            importlib.import_module(name)
        outcome = worker.run(run)
        sys.stdout.write(json.dumps(attrs.asdict(outcome)) + "\n")
        sys.stdout.flush()
    worker.close()


class _Worker:
    """Runs tests with a module's new text, in a child that has collected them already if that is possible."""

    def __init__(self) -> None:
        self._order = TestOrder()
        self._collected: dict[tuple[str, ...], _Collected] = {}

    def run(self, run: Run) -> Outcome:
        path = Path(run.module)
        original = path.read_text()
        collected = None
        if differs_in_functions_only(original, run.text):
            collected = self._collected_for(run, original)
        path.write_text(run.text)
        _remove_bytecode(path)
        try:
            outcome = self._import_and_run(run) if collected is None else collected.run(run)
            if collected is not None and outcome.code == 0 and run.text != original:
                # What tests made while they were collected, such as cases of tables, is of the original.
                outcome = self._import_and_run(run)
            return outcome
        finally:
            path.write_text(original)
            _remove_bytecode(path)

    def close(self) -> None:
        for collected in self._collected.values():
            collected.close()
        self._collected.clear()

    def _collected_for(self, run: Run, original: str) -> _Collected | None:
        key = (run.module, *run.tests)
        if any(module != run.module for module, *_ in self._collected):
            self.close()
        if key not in self._collected:
            self._collected[key] = _Collected(run, original, self._order)
        return self._collected[key] if self._collected[key].is_ready else None

    def _import_and_run(self, run: Run) -> Outcome:
        outcome = _in_child(run, partial(_run_tests, run, self._order))
        self._order.load()
        return outcome


class _Collected:
    """A process that has collected tests with the module's own text, and forks for each run."""

    def __init__(self, run: Run, original: str, order: TestOrder) -> None:
        self._requests, requests = socket.socketpair()
        self._process = os.fork()
        if self._process == 0:
            self._requests.close()
            server = _Server(requests, order, original)
            _redirect_output()
            _run_tests(run, order, server)
        requests.close()
        self._answers = self._requests.makefile("r")
        # Until then the module is read, and must not be written. Nothing comes if collecting fails.
        self.is_ready = bool(self._answers.readline())

    def run(self, run: Run) -> Outcome:
        self._requests.sendall(json.dumps(attrs.asdict(run)).encode() + b"\n")
        return Outcome(**json.loads(self._answers.readline()))

    def close(self) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        self._answers.close()
        self._requests.close()


class _Server:
    """A plugin of pytest that runs the collected tests in a fork for each request."""

    def __init__(self, requests: socket.socket, order: TestOrder, text: str) -> None:
        self._requests = requests
        self._order = order
        self._text = text

    @hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Return True after the last request; None in a fork, where pytest's own loop comes next."""
        self._requests.sendall(b"ready\n")
        for line in self._requests.makefile("r"):
            run = Run(**json.loads(line))
            forked: list[Run] = []
            outcome = _in_child(run, partial(forked.append, run))
            if forked:
                change_functions(Path(run.module), self._text, run.text)
                self._order.pytest_collection_modifyitems(session.items)
                return None
            self._order.load()
            self._requests.sendall(json.dumps(attrs.asdict(outcome)).encode() + b"\n")
        return True


def _remove_bytecode(path: Path) -> None:
    """Remove that of another text: it is believed when the text's time and size are the same."""
    for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        stale.unlink()


def _in_child(run: Run, act: Callable[[], None]) -> Outcome:
    """Fork; return what became of the child. The child acts and returns, with nothing to say."""
    _OUTPUT.write_bytes(b"")
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _limit(run)
        act()
        return Outcome(0, 0, 0, "")
    descriptor = os.pidfd_open(child)
    ended = bool(select.select([descriptor], [], [], run.wall_seconds)[0])
    os.close(descriptor)
    if not ended:
        os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    with suppress(ProcessLookupError):  # what the tests left behind
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status)
    took_too_long = not ended or code in (-signal.SIGXCPU, -signal.SIGKILL)
    return Outcome(
        TIMED_OUT if took_too_long else code,
        time.monotonic() - start,
        usage.ru_utime + usage.ru_stime,
        _OUTPUT.read_bytes()[-_OUTPUT_BYTES:].decode(errors="replace"),
    )


def _limit(run: Run) -> None:
    os.setsid()
    limit = int(run.cpu_seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    _redirect_output()


def _redirect_output() -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(_OUTPUT, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


def _run_tests(run: Run, order: TestOrder, *plugins: object) -> NoReturn:
    import pytest

    ignored = [f"--ignore-glob={pattern}" for pattern in run.ignored]
    options = ["-x", "-q", "-m", "not long", "--tb=short", "--no-header"]
    options += ["-p", "no:cacheprovider", "-p", "no:xdist"]
    # Nobody reads why a test failed, and to tell how large values differ can take minutes.
    options += ["--assert=plain"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # the preloaded ones
    code = 3
    try:
        code = int(pytest.main([*options, *ignored, *run.tests], plugins=[_WithoutPeers(), order, *plugins]))
        order.save()
        sys.stdout.flush()
    except BaseException:
        os.write(1, traceback.format_exc().encode())
        raise
    finally:
        os._exit(code)


class _WithoutPeers:
    """A plugin of pytest that leaves out the tests with a JVM: their start takes longer than all others."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = [item for item in items if _needs_jvm(item)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _needs_jvm(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    broker = callspec.params.get("real_broker") if callspec is not None else None
    return broker == "kafka" or bool({"shared_kafka", "spark"} & set(getattr(item, "fixturenames", ())))


if __name__ == "__main__":
    main()

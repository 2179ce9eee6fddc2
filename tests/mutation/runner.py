"""Runs the quick tests of a module against each of its mutants, in copies of the checkout."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import attrs

from tests.mutation.mutants import Mutant
from tests.mutation.targets import SLOW_TESTS, preloaded
from tests.mutation.worker import TIMED_OUT, Outcome, Run

_COPIED = (
    "src",
    "kernel",
    "plugins",
    "tests",
    "benchmarks",
    "docs",
    "scripts",
    "pyproject.toml",
    "Makefile",
    "README.md",
)
# A mutant may take so many times as long as the module itself, and so many seconds more.
_PATIENCE = 4
_PATIENCE_SECONDS = 10.0
_WALL_PATIENCE = 20
# A test that waits in vain, for what a mutant never does.
_DEADLINE_S = "30"
_TESTS_FAILED = 1
_NO_TESTS = 5


class BrokenBaselineError(Exception):
    """The tests fail, or there are none, without any mutant: nothing can be said about mutants."""


@attrs.frozen
class Result:
    """What became of one mutant. `killed` also if it ran too long or could not be imported."""

    mutant: Mutant
    killed: bool
    timed_out: bool
    killed_by: str


class Worker:
    """One copy of the checkout with a process that runs tests in it. The checkout itself is never touched."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._folder = folder
        for name in _COPIED:
            if (root / name).is_dir():
                ignored = shutil.ignore_patterns("node_modules", ".hypothesis")
                shutil.copytree(root / name, folder / name, symlinks=True, ignore=ignored)
            elif (root / name).exists():
                shutil.copy2(root / name, folder / name)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutation.worker"],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, run: Run) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(attrs.asdict(run)) + "\n")
        self._process.stdin.flush()
        return Outcome(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process and those that it has forked to collect tests."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def _environment(folder: Path) -> dict[str, str]:
    """The copy's packages come before the installed ones; hypothesis' examples are fixed and not shrunk."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")}
    return {
        **inherited,
        "CI": "true",
        "HYPOTHESIS_PROFILE": "mutants",
        "TIDELOG_PURE": "1",  # what is compiled would not notice
        "TEST_DEADLINE_S": os.environ.get("TEST_DEADLINE_S", _DEADLINE_S),
        "PYTHONPATH": str(folder / "src"),
    }


@contextmanager
def running_workers(root: Path, number: int) -> Generator[list[Worker]]:
    """So many copies, removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="tidelog-mutants-") as name:
        made: list[Worker] = []
        try:
            for index in range(number):
                folder = Path(name) / str(index)
                folder.mkdir()
                made.append(Worker(root, folder))
            yield made
        finally:
            for worker in made:
                worker.close()


def run_module(
    module: Path, mutants: Sequence[Mutant], tests: Sequence[str], workers: Sequence[Worker]
) -> Iterator[Result]:
    """Yield the results in the order of the mutants.

    Raises:
        BrokenBaselineError: the tests do not pass without a mutant.
    """
    # Most mutants do not survive the file that mirrors the module, which takes a fraction of the rest.
    stages = [tests[:1], tests] if tests[0].endswith(".py") and len(tests) > 1 else [tests]
    runs = [_patient_run(module, stage, workers[0]) for stage in stages]
    idle: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def try_one(mutant: Mutant) -> Result:
        worker = idle.get()
        try:
            results = (_result(mutant, worker.run(attrs.evolve(run, text=mutant.text))) for run in runs)
            return next((result for result in results if result.killed), Result(mutant, False, False, ""))
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        yield from pool.map(try_one, mutants)


def _patient_run(module: Path, tests: Sequence[str], worker: Worker) -> Run:
    """Run the tests without a mutant; return how they are run with one."""
    plain = Run(
        str(module),
        Path(module).read_text(),
        list(tests),
        list(SLOW_TESTS),
        1000,
        3600,
        preloaded(Path(module)),
    )
    baseline = worker.run(plain)
    if baseline.code != 0:
        raise BrokenBaselineError(f"{module}: {' '.join(tests)} failed without a mutant:\n{baseline.output}")
    return attrs.evolve(
        plain,
        cpu_seconds=_PATIENCE * baseline.cpu_seconds + _PATIENCE_SECONDS,
        wall_seconds=_WALL_PATIENCE * baseline.seconds + 30 * _PATIENCE_SECONDS,
    )


def _result(mutant: Mutant, outcome: Outcome) -> Result:
    failed = [line for line in outcome.output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return Result(
        mutant,
        killed=outcome.code != 0,
        timed_out=outcome.code == TIMED_OUT,
        killed_by=failed[0] if failed else "",
    )

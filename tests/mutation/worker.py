"""A process in a copy of the checkout with the test tools loaded: it forks a child for each run.

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
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

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
_MEMORY_BYTES = 3 << 30
_OUTPUT_BYTES = 4_000


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


def main() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    for line in sys.stdin:
        run = Run(**json.loads(line))
        for name in run.preloaded:
            importlib.import_module(name)
        outcome = _run_module(run)
        sys.stdout.write(json.dumps(attrs.asdict(outcome)) + "\n")
        sys.stdout.flush()


def _run_module(run: Run) -> Outcome:
    """Run the tests with the module's new text, and put the old one back."""
    path = Path(run.module)
    original = path.read_bytes()
    path.write_text(run.text)
    _remove_bytecode(path)
    try:
        return _run(run)
    finally:
        path.write_bytes(original)
        _remove_bytecode(path)


def _remove_bytecode(path: Path) -> None:
    """Remove that of another text: it is believed when the text's time and size are the same."""
    for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        stale.unlink()


def _run(run: Run) -> Outcome:
    reading, writing = os.pipe()
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_child(run, writing)
    os.close(writing)
    output, ended = _read(reading, start + run.wall_seconds)
    if not ended:
        os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    with suppress(ProcessLookupError):  # what the tests left behind
        os.killpg(child, signal.SIGKILL)
    os.close(reading)
    code = os.waitstatus_to_exitcode(status)
    took_too_long = not ended or code in (-signal.SIGXCPU, -signal.SIGKILL)
    return Outcome(
        TIMED_OUT if took_too_long else code,
        time.monotonic() - start,
        usage.ru_utime + usage.ru_stime,
        output[-_OUTPUT_BYTES:].decode(errors="replace"),
    )


def _read(descriptor: int, deadline: float) -> tuple[bytes, bool]:
    """Return what the child writes, and whether it ended before the deadline."""
    output = b""
    while (left := deadline - time.monotonic()) > 0:
        if select.select([descriptor], [], [], left)[0]:
            piece = os.read(descriptor, 65536)
            if not piece:
                return output, True
            output += piece
    return output, False


def _be_child(run: Run, writing: int) -> None:
    os.setsid()
    limit = int(run.cpu_seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    os.close(writing)
    import pytest

    ignored = [f"--ignore-glob={pattern}" for pattern in run.ignored]
    options = ["-x", "-q", "-m", "not long", "--tb=short", "--no-header"]
    options += ["-p", "no:cacheprovider", "-p", "no:xdist"]
    # Nobody reads why a test failed, and to tell how large values differ can take minutes.
    options += ["--assert=plain"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # the preloaded ones
    code = 3
    try:
        code = int(pytest.main([*options, *ignored, *run.tests], plugins=[_WithoutPeers()]))
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

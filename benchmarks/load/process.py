"""A load in a process of its own: started, asked for slices and, whatever happens, ended."""

from __future__ import annotations

import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from benchmarks.procfs import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

CHECKOUT = Path(__file__).resolve().parents[2]
_POLL_S = 0.05
_READ_BYTES = 1 << 20
_ERROR_CHARACTERS = 3000


Spec = TypeVar("Spec", bound=attrs.AttrsInstance)
Result = TypeVar("Result", bound=attrs.AttrsInstance)


@attrs.frozen
class Load(Generic[Spec, Result]):
    """A kind of load: its name in messages, and what goes in and comes out."""

    name: str
    run: Callable[[Spec], Result]
    spec: type[Spec]
    result: type[Result]


class LoadFailedError(Exception):
    """A load ended with an error; the message has what it printed."""


def run_load(load: Load[Spec, Result], spec: Spec, timeout_s: float) -> Result:
    """Run `load` in a fresh interpreter to its end.

    Raises LoadFailedError when it fails or takes longer than `timeout_s`.
    """
    with LoadProcesses() as processes:
        return processes.run(load, spec, timeout_s)


class LoadProcesses:
    """The processes of the loads of one broker: a load that is run again finds its clients connected.

    All of them end with the block.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, _LoadProcess] = {}

    def __enter__(self) -> LoadProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def run(self, load: Load[Spec, Result], spec: Spec, timeout_s: float) -> Result:
        """Run `load` once, in the interpreter that has run it before if there is one.

        Raises LoadFailedError when it fails or takes longer than `timeout_s`; its process is gone then.
        """
        process = self._by_name.get(load.name) or _LoadProcess(load)
        self._by_name[load.name] = process
        try:
            return load.result(**process.run(spec, timeout_s))
        except BaseException:
            del self._by_name[load.name]
            process.end()
            raise

    def end(self) -> None:
        """End all of them."""
        while self._by_name:
            self._by_name.popitem()[1].end()


class _LoadProcess:
    """An interpreter that runs one load for each spec that it is given."""

    def __init__(self, load: Load[Any, Any], stdout: int = subprocess.PIPE) -> None:
        self._name = load.name
        self._errors = TemporaryFile("w+", errors="replace")  # noqa: SIM115 (`end` closes it)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.load", _place_of(load.run), _place_of(load.spec)],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=self._errors,
            cwd=CHECKOUT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def begin(self, spec: attrs.AttrsInstance) -> None:
        """Send the spec; the process may be gone already, which is found when its result is read."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(attrs.asdict(spec)).encode() + b"\n")
            self._process.stdin.flush()

    def run(self, spec: attrs.AttrsInstance, timeout_s: float) -> dict[str, Any]:
        """Return the result; raises LoadFailedError."""
        self.begin(spec)
        output = b""
        deadline = time.monotonic() + timeout_s
        # Lines before the result are of libraries.
        while not output.endswith(b"}\n"):
            part = self._read_until(deadline)
            if part is None:
                raise LoadFailedError(f"the load {self._name} did not end within {timeout_s:g} s: {spec}")
            if not part:
                raise self.failed("failed", spec)
            output += part
        result: dict[str, Any] = json.loads(output.splitlines()[-1])
        return result

    def _read_until(self, deadline: float) -> bytes | None:
        """Return what the process prints next; empty when it has ended, None at the deadline."""
        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        poller = select.poll()
        poller.register(output, select.POLLIN)
        ready = poller.poll(max(0.0, deadline - time.monotonic()) * 1000)
        return os.read(output, _READ_BYTES) if ready else None

    def failed(self, what: str, spec: attrs.AttrsInstance) -> LoadFailedError:
        """An error with the end of what the process has printed."""
        self._errors.seek(0)
        errors = self._errors.read().strip()[-_ERROR_CHARACTERS:]
        return LoadFailedError(f"the load {self._name} {what}: {spec}\n{errors}")

    def end(self) -> None:
        """Kill it and what it has started."""
        if self.is_running:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                # What was not written yet is of no use.
                with suppress(BrokenPipeError):
                    pipe.close()


class PausableProcesses:
    """The processes of a load that runs beside others."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def pause(self) -> None:
        """Stop all of them until `resume`."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue all of them."""
        os.killpg(self.pid, signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """Their processor time so far."""
        return cpu_seconds(self.pid)


@contextmanager
def pausable_load(
    load: Load[Spec, Any], spec: Spec, warm_file: Path, timeout_s: float
) -> Generator[PausableProcesses]:
    """Run `load`, which does not end by itself, in a fresh interpreter, until the block ends.

    The block begins when the load has created `warm_file`. Raises LoadFailedError when the load ends before
    that or takes longer than `timeout_s` for it.
    """
    deadline = time.monotonic() + timeout_s
    process = _LoadProcess(load, stdout=subprocess.DEVNULL)
    try:
        process.begin(spec)
        while not warm_file.exists():
            if not process.is_running or time.monotonic() > deadline:
                raise process.failed("did not begin", spec)
            time.sleep(_POLL_S)
        yield PausableProcesses(process.pid)
    finally:
        process.end()


def serve_load(function: str, spec_type: str) -> None:
    """The other side of `LoadProcesses`: do as each line's spec says, print each result as a line."""
    run, make_spec = pkgutil.resolve_name(function), pkgutil.resolve_name(spec_type)
    for line in sys.stdin:
        print(json.dumps(attrs.asdict(run(make_spec(**json.loads(line))))), flush=True)


def _place_of(value: Callable[..., object]) -> str:
    return f"{value.__module__}:{value.__qualname__}"

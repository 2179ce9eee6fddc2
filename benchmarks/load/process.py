"""A load in a process of its own: started, awaited and, whatever happens, ended."""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

CHECKOUT = Path(__file__).resolve().parents[2]
_POLL_S = 0.05


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
    with subprocess.Popen(
        _command(load, spec),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise LoadFailedError(
                f"the load {load.name} did not end within {timeout_s:g} s: {spec}"
            ) from error
        finally:
            _end(process)
    if process.returncode != 0:
        raise LoadFailedError(f"the load {load.name} failed: {spec}\n{errors.strip()[-3000:]}")
    return load.result(**json.loads(output.splitlines()[-1]))


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


@contextmanager
def pausable_load(
    load: Load[Spec, Any], spec: Spec, warm_file: Path, timeout_s: float
) -> Generator[PausableProcesses]:
    """Run `load`, which does not end by itself, in a fresh interpreter, until the block ends.

    The block begins when the load has created `warm_file`. Raises LoadFailedError when the load ends before
    that or takes longer than `timeout_s` for it.
    """
    deadline = time.monotonic() + timeout_s
    with TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            _command(load, spec),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=CHECKOUT,
            start_new_session=True,
        )
        try:
            while not warm_file.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    errors.seek(0)
                    raise LoadFailedError(
                        f"the load {load.name} did not begin: {spec}\n{errors.read().strip()[-3000:]}"
                    )
                time.sleep(_POLL_S)
            yield PausableProcesses(process.pid)
        finally:
            _end(process)


def _command(load: Load[Spec, Any], spec: Spec) -> list[str]:
    parts = [_place_of(load.run), _place_of(load.spec), json.dumps(attrs.asdict(spec))]
    return [sys.executable, "-m", "benchmarks.load", *parts]


def serve_load(function: str, spec_type: str, spec_json: str) -> None:
    """The other side of `run_load`: do as the spec says and print the result."""
    spec = pkgutil.resolve_name(spec_type)(**json.loads(spec_json))
    print(json.dumps(attrs.asdict(pkgutil.resolve_name(function)(spec))))


def _place_of(value: Callable[..., object]) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

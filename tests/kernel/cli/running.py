"""The command as its users run it: a process of its own, in an environment without settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any
from unittest import mock

import attrs
import pytest

from tests.deadlines import DEADLINE_S
from tidelog.kernel.cli import main

COMMAND = (sys.executable, "-m", "tidelog.kernel")


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without tidelog's variables, and with `extra` ones."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")}
    return {**kept, **(extra or {})}


def tidelog(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(environment),
        timeout=DEADLINE_S,
    )


def tidelog_in_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, without a terminal: a process of its own takes many times as long."""
    printed, complained = StringIO(), StringIO()
    with (
        redirect_stdout(printed),
        redirect_stderr(complained),
        mock.patch.object(sys, "stdin", StringIO()),
        mock.patch.dict(os.environ, clean_environment(environment), clear=True),
        pytest.raises(SystemExit) as ended,
    ):
        main(arguments)
    return subprocess.CompletedProcess(
        arguments, int(ended.value.code or 0), printed.getvalue(), complained.getvalue()
    )


def printed_json(*arguments: str, **environment: str) -> Any:
    """What the command prints with `--json`; it must succeed."""
    done = tidelog(*arguments, "--json", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def write_plugin(folder: Path, name: str, source: str) -> dict[str, str]:
    """A module that is a plugin, and the variables that make a process load it."""
    folder.joinpath(f"{name}.py").write_text(dedent(source))
    return {"PYTHONPATH": str(folder), "TIDELOG_PLUGINS": name}


@attrs.define
class Serving:
    """A running `tidelog serve`; after `stop` its output is in `stdout` and `stderr`."""

    process: subprocess.Popen[str]
    ready_file: Path
    stdout: str = ""
    stderr: str = ""

    @property
    def ready(self) -> dict[str, Any]:
        """The content of the ready file, once it is there."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.ready_file.exists():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, "the broker did not get ready"
            time.sleep(0.01)
        told: dict[str, Any] = json.loads(self.ready_file.read_text())
        return told

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait until it ends by itself; its exit code."""
        self.stdout, self.stderr = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode


@contextmanager
def serving(folder: Path, *arguments: str, **environment: str) -> Generator[Serving]:
    """`tidelog serve` on a free port with its data in `folder`, killed at the end if it still runs."""
    ready_file = folder / "ready.json"
    process = subprocess.Popen(
        [
            *(*COMMAND, "serve", "--ready-file", str(ready_file)),
            *("--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", f"log.dirs={folder / 'data'}"),
            *arguments,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(environment),
    )
    try:
        yield Serving(process, ready_file)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()

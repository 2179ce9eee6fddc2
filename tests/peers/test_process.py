from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import ServerFailedError, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

POLITE = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('up', flush=True); time.sleep(600)"
)
# Starts a server, tells its process id, and is killed by the test.
STARTER = """
import sys, time
from pathlib import Path
from tests.peers import ServerProcess
server = ServerProcess("victim", [sys.executable, "-c", sys.argv[2]], Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


def a_server(folder: Path, program: str) -> ServerProcess:
    return ServerProcess("the server", [sys.executable, "-c", program], folder / "log")


def wait_for_output(server: ServerProcess, text: str) -> None:
    """The log file is the only thing that such a server tells, so it is asked until it does."""
    command = ["/bin/sh", "-c", f"until grep -q '{text}' '{server.log_path}'; do sleep 0.01; done"]
    subprocess.run(command, timeout=DEADLINE_S, check=True)


@pytest.fixture
def polite(tmp_path: Path) -> Generator[ServerProcess]:
    server = a_server(tmp_path, POLITE)
    server.start()
    wait_for_output(server, "up")
    yield server
    server.kill()


def test_a_server_is_stopped_by_sigterm_and_starts_again(polite: ServerProcess) -> None:
    first = polite.pid
    assert polite.stop() == -signal.SIGTERM
    assert not polite.is_running
    polite.start()
    assert polite.pid != first
    assert polite.stop() == -signal.SIGTERM


def test_a_server_is_killed(polite: ServerProcess) -> None:
    polite.kill()
    assert polite.wait(DEADLINE_S) == -signal.SIGKILL
    polite.kill()
    polite.stop()


def test_a_server_that_runs_is_not_started_twice(polite: ServerProcess) -> None:
    with pytest.raises(RuntimeError, match="runs already"):
        polite.start()


def test_who_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    server = a_server(tmp_path, STUBBORN)
    server.start()
    wait_for_output(server, "up")
    assert server.stop(timeout_s=0.1) == -signal.SIGKILL


def test_a_failure_shows_the_end_of_the_log(tmp_path: Path) -> None:
    server = a_server(tmp_path, "print('x' * 9999); print('the cause'); raise SystemExit(3)")
    server.start()
    server.wait(DEADLINE_S)
    error = server.failed("did not start")
    assert isinstance(error, ServerFailedError)
    assert str(error).startswith("the server did not start (exit status 3); the end of ")
    assert str(error).endswith("the cause\n")
    assert len(str(error)) < 5000


def test_what_was_never_started_can_be_stopped(tmp_path: Path) -> None:
    server = a_server(tmp_path, POLITE)
    assert server.stop() is None
    server.kill()
    assert server.log_tail() == ""
    with pytest.raises(RuntimeError, match="never started"):
        _ = server.pid


def test_a_server_does_not_outlive_a_starter_that_is_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "log"), POLITE], stdout=subprocess.PIPE, text=True
    )
    with starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        starter.kill()
    gone = ["/bin/sh", "-c", f"while kill -0 {pid} 2>/dev/null; do sleep 0.01; done"]
    subprocess.run(gone, timeout=DEADLINE_S, check=True)

"""Does what a newcomer does: `make run`, a record in and out with kcat, Ctrl-C, and the same once more.

Needs make, kcat and a Python to run itself with; everything else is what `make run` sets up.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SET_UP_LIMIT_S = 300.0  # the first `make run` creates the environment and installs into it
ANSWER_LIMIT_S = 10
STOP_LIMIT_S = 15.0
TOPIC = "first-steps"
RECORD = "hello, log"
CLEAN_SHUTDOWN_MARKER = ".kafka_cleanshutdown"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def kcat(port: int, *arguments: str, stdin: str = "") -> str:
    command = ["kcat", "-b", f"127.0.0.1:{port}", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=ANSWER_LIMIT_S)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}: {done.stderr}")
    return done.stdout


def wait_until_it_answers(broker: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + SET_UP_LIMIT_S
    while not answers(port):
        if broker.poll() is not None:
            sys.exit(f"`make run` ended with {broker.returncode} before it answered")
        if time.monotonic() > deadline:
            sys.exit(f"`make run` did not answer on port {port} within {SET_UP_LIMIT_S:.0f} s")
        time.sleep(0.05)


def produce(port: int) -> None:
    kcat(port, "-L")
    kcat(port, "-P", "-t", TOPIC, stdin=RECORD + "\n")


def consume(port: int) -> None:
    read = kcat(port, "-C", "-t", TOPIC, "-o", "beginning", "-e", "-q")
    if read != RECORD + "\n":
        sys.exit(f"produced {RECORD!r}, consumed {read!r}")


def stop(broker: subprocess.Popen[bytes], how: signal.Signals, data: Path) -> None:
    """Ctrl-C in a terminal signals the whole foreground group; SIGTERM goes to make, which passes it on."""
    if how is signal.SIGINT:
        os.killpg(broker.pid, how)
    else:
        broker.send_signal(how)
    broker.wait(STOP_LIMIT_S)
    # The exit code is make's, which reports the signal in its own way; the marker is the broker's own word.
    if not (data / CLEAN_SHUTDOWN_MARKER).exists():
        sys.exit(f"no {CLEAN_SHUTDOWN_MARKER} in {data} after {how.name}: the broker did not stop cleanly")


@contextmanager
def make_run(port: int, data: Path, how_to_stop: signal.Signals) -> Generator[None]:
    command = ["make", "run", f"PORT={port}", f"DATA={data}"]
    broker = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        started = time.monotonic()
        wait_until_it_answers(broker, port)
        print(f"`make run` answers after {time.monotonic() - started:.1f} s", flush=True)
        yield
        stop(broker, how_to_stop, data)
    finally:
        if broker.poll() is None:
            os.killpg(broker.pid, signal.SIGKILL)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        port = free_port()
        with make_run(port, data, signal.SIGINT):
            produce(port)
            consume(port)
        with make_run(port, data, signal.SIGTERM):
            consume(port)
    print("`make run`, kcat, Ctrl-C and a second `make run` work")


if __name__ == "__main__":
    main()

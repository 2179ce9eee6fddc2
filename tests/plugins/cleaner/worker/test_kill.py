"""A broker that is killed leaves no worker behind, whatever that does at the moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.deadlines import wait_until
from tests.plugins.cleaner.execution.test_rewriting import THROTTLED, TOPIC, filled, running
from tests.plugins.cleaner.filters import EvenOffsets
from tidelog.kernel.seams.cleanup import Rewrite
from tidelog.plugins.cleaner.execution.workers import Workers

ROOT = Path(__file__).parents[4]


async def broker_with_a_worker(folder: Path) -> None:
    """Run a broker whose worker has begun to write a draft, and waits for its share of the throttle."""
    async with running(folder, "file", **THROTTLED) as broker, Workers(broker.config).worker() as worker:
        partition = await filled(broker)
        config = broker.topics.get(TOPIC).config

        def observe(*_: object) -> None:
            print(worker.pid, flush=True)

        planned = Rewrite(12, 0.5, 12, lambda _: EvenOffsets())
        await worker.rewrite(partition, planned, config, broker.clock(), observe)


def runs(pid: int) -> bool:
    """Whether a process runs or is stopped; one that has ended may wait for its parent to notice."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a process with its parent")
def test_a_worker_ends_with_a_broker_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", __name__, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        worker = int(broker.stdout.readline())
        try:
            # So it cannot notice by itself that the broker is gone.
            os.kill(worker, signal.SIGSTOP)
            assert runs(worker)
            broker.kill()
            wait_until(lambda: not runs(worker), "the end of the worker")
        finally:
            broker.kill()
            if runs(worker):
                os.kill(worker, signal.SIGKILL)


if __name__ == "__main__":
    trio.run(broker_with_a_worker, Path(sys.argv[1]))

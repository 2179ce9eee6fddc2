"""A process that is killed in the middle of its work loses nothing of what it had appended."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.plugins.storage_file.crash_worker import SETTINGS, harness_at
from tidelog.kernel.records.batch import verify_crc
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.storage.harness import headers_of, read_all

ROOT = Path(__file__).resolve().parents[3]
ROUNDS = 6


def append_and_be_killed(place: Path, after_s: float) -> int:
    """The last end offset that the process told before it was killed."""
    command = [sys.executable, "-m", "tests.plugins.storage_file.crash_worker", str(place)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        told = [worker.stdout.readline()]
        assert told[0], "the process did not start"
        killer = threading.Timer(after_s, worker.kill)
        killer.start()
        told += worker.stdout.readlines()
    # The last line may be torn by the kill itself.
    return int([line for line in told if line.endswith("\n")][-1])


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
async def test_everything_that_was_appended_survives_a_kill(
    tmp_path: Path, tasks: BackgroundTasks, seed: int
) -> None:
    choose = random.Random(seed)
    for _ in range(ROUNDS):
        acknowledged = append_and_be_killed(tmp_path, choose.uniform(0.0, 0.15))
        harness = harness_at(tmp_path, tasks)
        await harness.open()
        assert not harness.storage.clean_start
        store = await harness.open_store(**SETTINGS)
        assert store.log_end_offset >= acknowledged
        content = read_all(store)
        headers = headers_of(content)
        assert sum(header.size for header in headers) == len(content)
        expected, position = 0, 0
        for header in headers:
            assert header.base_offset == expected
            assert verify_crc(content[position : position + header.size], header)
            position += header.size
            expected = header.next_offset
        assert expected == store.log_end_offset
        # Left without closing, so that the next round begins with another crash.
        harness.abandon()

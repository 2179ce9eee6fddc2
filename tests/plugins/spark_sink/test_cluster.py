"""Queries whose tasks run in other processes than the driver, as on a cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.spark_sink.cluster import EXECUTORS
from tests.plugins.spark_sink.queries import new_topic


@pytest.mark.long
def test_executors_in_processes_of_their_own_get_the_rows_of_small_micro_batches_and_read_and_write(
    shared_tidelog: str, tmp_path: Path
) -> None:
    values = [f"v{number}" for number in range(200)]
    with new_topic(shared_tidelog, 2) as topic, new_topic(shared_tidelog, 2) as copy:
        topic.produce(0, values[:100])
        topic.produce(1, values[100:])
        command = [sys.executable, "-m", "tests.plugins.spark_sink.cluster"]
        done = subprocess.run(
            [*command, shared_tidelog, topic.name, copy.name, str(tmp_path)], capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["executors"] == EXECUTORS
    assert sorted(found["streamed"]) == sorted(found["copied"]) == sorted(values)

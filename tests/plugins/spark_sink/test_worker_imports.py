"""What a Python process of Spark imports of tidelog: it starts for each task that reads or writes."""

from __future__ import annotations

import subprocess
import sys

import pytest

# What each process has before it gets the reader or the writer.
OF_SPARK = (
    "import sys, numpy, pyarrow, pyspark.worker, pyspark.sql.worker.plan_data_source_read,"
    " pyspark.sql.worker.write_into_data_source"
)
TASKS = {
    "tidelog.plugins.spark_sink.source.batch_reader": 120,
    "tidelog.plugins.spark_sink.source.stream_reader": 120,
    "tidelog.plugins.spark_sink.writer.writers": 120,
}
"""Modules that the process of a task may import more, by the module of what is unpickled there."""
OF_THE_BROKER = (
    "argparse",
    "asyncio",
    "click",
    "crc32c",
    "importlib.metadata",
    "pluggy",
    "trio",
    "tidelog.kernel.config",
    "tidelog.kernel.seams",
    "tidelog.plugins.compression",
)
OF_ADMINISTRATION = ("tidelog.plugins.client.operations.configs", "tidelog.plugins.client.operations.topics")
OF_OTHER_TASKS = {
    "source": (
        "difflib",
        "tidelog.plugins.client.operations.producing",
        "tidelog.plugins.spark_sink.source.log_offsets",
    ),
    "writer": ("tidelog.plugins.client.operations.fetching", "tidelog.plugins.client.operations.reading"),
}


def imported(module: str) -> set[str]:
    """What a process imports for a module beside what it has of Spark."""
    program = f"{OF_SPARK}; before = set(sys.modules); import {module}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(("module", "most"), TASKS.items())
def test_a_task_imports_few_modules(module: str, most: int) -> None:
    found = imported(module)
    unwanted = (*OF_THE_BROKER, *OF_ADMINISTRATION, *OF_OTHER_TASKS[module.split(".")[-2]])
    assert not [name for name in sorted(found) if name.startswith(unwanted)]
    assert len(found) <= most, sorted(found)

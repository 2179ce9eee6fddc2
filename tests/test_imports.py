"""What an import really loads, in a fresh process: layers on paper are checked by `make layers`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grimp

from tests.tables import for_each

EVENT_LOOPS = {"asyncio", "trio"}
COMMAND_LINE = {"click", "rich"}
COMPRESSION = {"cramjam", "lz4", "zlib_ng", "zstandard"}
PLUGINS = {"pluggy", "importlib.metadata"}
ARRAYS = {"numpy"}
"""Only processes that rewrite logs need it; its import takes as long as a whole start."""

# Module → what it must not load. Spark's workers decode messages without an event loop; a plugin that only
# offers hooks costs no more than pluggy.
LIGHT = {
    "tidelog.kernel": EVENT_LOOPS | COMMAND_LINE | COMPRESSION | {"attrs"},
    "tidelog.kernel.hookspecs": EVENT_LOOPS | COMMAND_LINE | COMPRESSION | {"attrs"},
    "tidelog.plugins.cleaner.execution.log_cleanup": COMMAND_LINE | COMPRESSION | ARRAYS,
    # Where it is imported on the event loop; a thread imports what starts a process.
    "tidelog.plugins.cleaner.execution.rewriting": COMMAND_LINE | COMPRESSION | ARRAYS | {"multiprocessing"},
    "tidelog.plugins.cleaner.worker.__main__": EVENT_LOOPS | COMMAND_LINE | COMPRESSION | PLUGINS,
    "tidelog.kernel.log": COMMAND_LINE | COMPRESSION | ARRAYS,
    "tidelog.kernel.records": EVENT_LOOPS | COMMAND_LINE | COMPRESSION | PLUGINS | ARRAYS,
    "tidelog.plugins.cleaner.compaction.policy": COMMAND_LINE | COMPRESSION | ARRAYS,
    "tidelog.client": EVENT_LOOPS | COMMAND_LINE | COMPRESSION | PLUGINS | ARRAYS | {"attrs"},
    "tidelog.plugins.client.producer.producer": EVENT_LOOPS | COMMAND_LINE | COMPRESSION | PLUGINS | ARRAYS,
    "tidelog.plugins.client.producer.async_producer": EVENT_LOOPS
    | COMMAND_LINE
    | COMPRESSION
    | PLUGINS
    | ARRAYS,
    "tidelog.plugins.client.drivers.blocking_driver": EVENT_LOOPS | COMMAND_LINE | COMPRESSION | PLUGINS,
    "tidelog.plugins.client.drivers.trio_client": COMMAND_LINE | COMPRESSION | PLUGINS | ARRAYS,
    "tidelog.plugins.schema": EVENT_LOOPS | COMMAND_LINE | COMPRESSION | PLUGINS,
    "tidelog.plugins.protocol_kafka.connection": COMMAND_LINE | COMPRESSION,
    "tidelog.plugins.protocol_kafka.messages": EVENT_LOOPS | COMMAND_LINE | COMPRESSION | PLUGINS,
}


@for_each("module", LIGHT)
def test_an_import_loads_no_more_than_it_needs(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not LIGHT[module] & set(done.stdout.split())


SERVED_LATER = (
    "tidelog.kernel.seams.coordination.assignors",
    "tidelog.kernel.cli.plugins",
    "tidelog.kernel.records.up_conversion",
    "tidelog.kernel.seams.sinks",
    "tidelog.kernel.sinks.supervision",
    "tidelog.plugins.cleaner.execution.rewriting",
    "tidelog.plugins.cleaner.worker.process",
    "tidelog.plugins.coordinator.consumer_groups.service",
    "tidelog.plugins.coordinator.consumer_groups.settings",
    "tidelog.plugins.coordinator.classic_groups.registered_classic_group",
    "tidelog.plugins.coordinator.groups",
    "tidelog.plugins.coordinator.runtime.durable_change",
    "tidelog.plugins.coordinator.service",
    "tidelog.plugins.coordinator.transactions.service",
    "tidelog.plugins.index_memory.memory_index",
    "tidelog.plugins.protocol_kafka.apis.config_changes",
    "tidelog.plugins.protocol_kafka.apis.fetch",
    "tidelog.plugins.protocol_kafka.apis.produce",
)
"""What a fresh broker needs only once somebody asks for it."""

FRESH_START = """
import sys, trio
from tidelog.kernel.testing.broker import running_broker

async def main():
    async with running_broker({"storage": "file", "log.dirs": sys.argv[1]}):
        print(*sys.modules)

trio.run(main)
"""


def test_a_fresh_start_loads_nothing_that_is_served_later(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FRESH_START, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "tidelog.plugins.storage_file.storage" in loaded
    assert not loaded.intersection(SERVED_LATER) | loaded & (COMMAND_LINE | COMPRESSION | ARRAYS)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Also not by way of a package: `make layers` compares only modules and packages side by side."""
    graph = grimp.build_graph("tidelog", cache_dir=None, exclude_type_checking_imports=True)
    imports = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    while leaves := {module for module, imported in imports.items() if not imported}:
        imports = {module: imported - leaves for module, imported in imports.items() if module not in leaves}
    imported = {module for each in imports.values() for module in each}
    assert imported.intersection(imports) == set()

"""A process that appends without pause and tells what it has appended, for a test that kills it."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import UUID

import trio

from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.storage.harness import append

TOPIC_ID = UUID(int=1)
SETTINGS = {"segment_bytes": 5000, "index_interval_bytes": 200}


def harness_at(place: Path, tasks: BackgroundTasks) -> LogDirectoryHarness:
    """The harness that the process and the test share."""
    harness = LogDirectoryHarness(place, tasks)
    harness.topic_ids["topic"] = TOPIC_ID
    return harness


async def main(place: Path) -> None:
    """Append until killed; each line that is printed is the end offset of an appended batch."""
    tasks = BackgroundTasks()
    async with tasks.running():
        harness = harness_at(place, tasks)
        await harness.open()
        store = await harness.open_store(**SETTINGS)
        while True:
            append(store, 300 + store.log_end_offset % 500, records=1 + store.log_end_offset % 3)
            print(store.log_end_offset, flush=True)
            if store.log_end_offset % 50 == 0:
                await trio.to_thread.run_sync(store.flush)
            await trio.lowlevel.checkpoint()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))

"""Starts 300 servers one after the other, then 20 at once, and prints what they left behind, as JSON."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
from pathlib import Path

from tidelog.testing import KafkaServer

FIRST, ONE_BY_ONE, AT_ONCE = 30, 300, 20


def use(*servers: KafkaServer) -> None:
    for server in servers:
        server.start()
    for server in servers:
        server.produce("orders", "tea")
        assert len(server.records("orders")) == 1
    for server in servers:
        server.stop()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    # The first ones import, compile codecs and fill caches.
    for _ in range(FIRST):
        use(KafkaServer())
    use(*[KafkaServer() for _ in range(AT_ONCE)])
    threads, files = threading.active_count(), descriptors()
    before, blocks = resident(), sys.getallocatedblocks()
    for _ in range(ONE_BY_ONE):
        use(KafkaServer())
    one_by_one = resident() - before
    use(*[KafkaServer() for _ in range(AT_ONCE)])
    found = {
        "resident_bytes_one_by_one": one_by_one,
        "resident_bytes": resident() - before,
        "objects": sys.getallocatedblocks() - blocks,
        "threads": threading.active_count() - threads,
        "descriptors": descriptors() - files,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()

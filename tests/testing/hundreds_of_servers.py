"""Starts 300 servers one after the other, then 20 at once, and prints what they left behind, as JSON."""

from __future__ import annotations

import gc
import json
import threading
import tracemalloc
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


def allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def main() -> None:
    # The first ones import, compile codecs and fill caches.
    for _ in range(FIRST):
        use(KafkaServer())
    use(*[KafkaServer() for _ in range(AT_ONCE)])
    threads, files = threading.active_count(), descriptors()
    tracemalloc.start()
    before = allocated()
    for _ in range(ONE_BY_ONE):
        use(KafkaServer())
    use(*[KafkaServer() for _ in range(AT_ONCE)])
    found = {
        "growth_bytes": allocated() - before,
        "threads": threading.active_count() - threads,
        "descriptors": descriptors() - files,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()

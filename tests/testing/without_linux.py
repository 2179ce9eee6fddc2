"""Uses a server in a process that lacks what only Linux has, and prints what it has read."""

from __future__ import annotations

import os
import select
import socket
import sys

# trio's own event loop needs it on this system: what others ask for is missing.
import trio  # noqa: F401  # pyright: ignore[reportUnusedImport]

LACKS = (
    (os, "eventfd", "fdatasync", "memfd_create", "posix_fadvise", "posix_fallocate"),
    (os, "sched_getaffinity", "sched_setscheduler", "sched_yield", "RWF_NOWAIT", "SCHED_BATCH"),
    (socket, "MSG_MORE", "SO_REUSEPORT", "SO_BUSY_POLL", "TCP_QUICKACK", "TCP_USER_TIMEOUT"),
)


def remove() -> None:
    """Remove it, before anything of tidelog is imported."""
    assert "trio" in sys.modules
    for module, *names in LACKS:
        for name in names:
            vars(module).pop(name, None)
    sys.modules["select"] = type(sys)("select")
    vars(sys.modules["select"]).update({k: v for k, v in vars(select).items() if "epoll" not in k.lower()})


def main(directory: str) -> None:
    remove()
    from tidelog.testing import KafkaServer

    with KafkaServer(directory=directory, topics=["orders"]) as kafka:
        kafka.create_topic("prices", config={"cleanup.policy": "compact"})
        for value in ("1", "2"):
            kafka.produce("prices", value, "tea")
        kafka.compact_now("prices")
        for _ in range(3):
            # Long enough for `sendfile`, and for more than one call.
            kafka.produce("orders", bytes(900_000))
        kafka.kill()
        kafka.start()
        print(len(kafka.records("prices")), [len(each.value or b"") for each in kafka.records("orders")])


if __name__ == "__main__":
    main(sys.argv[1])

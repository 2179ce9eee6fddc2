"""A connector as a process of its own: it prints values, and its sessions so that another one can end them.

python -m tests.plugins.zookeeper.consumers.member_program CONNECT GROUP TOPIC SESSION_MS
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from typing import Any

from tidelog.client import ConsumerConnector
from tidelog.plugins.client.zookeeper_ensemble import ZooKeeperEnsemble

PRINTING = threading.Lock()


def main(connect: str, group: str, topic: str, session_ms: str) -> None:
    ensemble = ZooKeeperEnsemble(connect, session_timeout_ms=int(session_ms))
    connector = ConsumerConnector(
        ensemble,
        group_id=group,
        coordination="zookeeper",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
        rebalance_backoff_ms=300,
        fetch_max_wait_ms=50,
    )
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    # Not in the handler: it may interrupt what holds the lock of the connector.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=connector.shutdown).start())
    threading.Thread(target=print_sessions, args=(connector,), daemon=True).start()
    for record in stream:
        print_line(record.value.decode())


def print_line(text: str) -> None:
    """Print a line as a whole: two threads do."""
    with PRINTING:
        print(text, flush=True)


def print_sessions(connector: Any) -> None:
    printed: object = None
    while True:
        with contextlib.suppress(AttributeError):
            session = connector._core.coordination._zookeeper._client.client_id
            if session is not None and session[0] and session != printed:
                print_line(f"session {session[0]} {session[1].hex()}")
                printed = session
        threading.Event().wait(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""`.kafka_cleanshutdown`, the clean shutdown file of a log directory.

    {"version":0,"brokerEpoch":13}

It is removed as soon as it is read, so that a crash while logs are opened counts as an unclean stop. By the
broker epoch a controller recognizes a broker that lost nothing since its last registration.
Source: Apache Kafka's `CleanShutdownFileHandler`; the bytes as Apache Kafka 4.3.1 writes them.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.kernel import disk

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"


def consume_clean_shutdown_file(directory: Path) -> bool:
    """Blocking: return whether the directory was closed properly; the file is removed, durably."""
    path = directory / CLEAN_SHUTDOWN_FILE
    try:
        disk.unlink(path)
    except FileNotFoundError:
        return False
    disk.sync_directory(directory)
    return True


def write_clean_shutdown_file(directory: Path, broker_epoch: int) -> None:
    """Blocking: record, durably, that everything in the directory is closed."""
    content = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
    disk.replace_file(directory / CLEAN_SHUTDOWN_FILE, content.encode())

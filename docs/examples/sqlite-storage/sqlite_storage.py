"""A storage in SQLite: records are rows of a table; what else a broker keeps is in files, as without it."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tidelog.kernel import hookimpl
from tidelog.kernel.seams.storage import Storage, StorageBackend, StorageContext
from tidelog.kernel.seams.storage.key_value import KeyValueStorage

TIDELOG_INTERFACE = "1.0"
FILE_NAME = "records.sqlite"


@contextmanager
def os_errors() -> Generator[None]:
    """Raise what SQLite refuses as the broker expects it of a disk."""
    try:
        yield
    except sqlite3.Error as error:
        full = "full" in str(error)
        raise OSError(errno.ENOSPC if full else errno.EIO, f"SQLite: {error}") from error


class SqliteTable:
    """`KeyValueTable` in a file of SQLite, with a log that is written ahead of it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self.own = threading.local()
        self.connections: list[sqlite3.Connection] = []
        self.writing = threading.Lock()
        with os_errors():
            self.writer = self.connect()
            self.writer.execute("PRAGMA journal_mode = WAL")
            # A write waits for no device: `flush` does, in a thread, and moves what was written to its place.
            self.writer.execute("PRAGMA synchronous = NORMAL")
            self.writer.execute("PRAGMA wal_autocheckpoint = 0")
            self.writer.execute("CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB)")
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, check_same_thread=False)
        self.connections.append(connection)
        return connection

    @property
    def reader(self) -> sqlite3.Connection:
        """The connection of this thread: readers and the one writer never wait for each other."""
        found: sqlite3.Connection | None = getattr(self.own, "connection", None)
        if found is None:
            found = self.own.connection = self.connect()
        return found

    def get(self, key: bytes) -> bytes | None:
        with os_errors():
            found = self.reader.execute("SELECT value FROM pairs WHERE key = ?", (key,)).fetchone()
        return None if found is None else found[0]

    def scan(self, prefix: bytes, *, values: bool = True) -> Iterator[tuple[bytes, bytes]]:
        behind = (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")
        query = (
            "SELECT key, CASE WHEN ? THEN value ELSE x'' END FROM pairs WHERE key >= ? AND key < ? ORDER BY 1"
        )
        with os_errors():
            yield from self.reader.execute(query, (values, prefix, behind))

    def write(self, changes: Mapping[bytes, bytes | None]) -> None:
        stored = [(key, value) for key, value in changes.items() if value is not None]
        removed = [(key,) for key, value in changes.items() if value is None]
        with os_errors(), self.writing, self.writer:
            self.writer.executemany("INSERT OR REPLACE INTO pairs VALUES (?, ?)", stored)
            self.writer.executemany("DELETE FROM pairs WHERE key = ?", removed)

    def flush(self) -> None:
        # The log alone has to be on the disk: what is written after a power loss is what it has.
        descriptor = os.open(f"{self.path}-wal", os.O_RDONLY | os.O_CREAT)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        with os_errors():
            self.reader.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        with self.writing:
            while self.connections:
                self.connections.pop().close()


class SqliteBackend:
    """Storage in a file of SQLite in the first directory of `log.dirs`."""

    name = "sqlite"
    durable = True

    def create(self, context: StorageContext) -> Storage:
        return KeyValueStorage(context, SqliteTable)


@hookimpl
def tidelog_storage_backends() -> Iterable[StorageBackend]:
    """Offer the storage `sqlite`."""
    return [SqliteBackend()]

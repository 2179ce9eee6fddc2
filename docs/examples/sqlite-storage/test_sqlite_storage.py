"""The storage keeps the contract of its seam."""

import sqlite_storage

from tidelog.kernel.testing.storage import StorageConformance


class TestSqlite(StorageConformance, plugin=sqlite_storage): ...

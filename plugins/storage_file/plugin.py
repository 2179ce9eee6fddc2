"""Hooks of the storage `file`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.indexes import IndexFormat
    from tidelog.kernel.seams.storage import Storage, StorageBackend, StorageContext


class FileBackend:
    """Logs in files, in Apache Kafka's own formats."""

    name = "file"
    durable = True

    def create(self, context: StorageContext) -> Storage:
        """Return a storage that is not open yet; its modules are imported now."""
        from tidelog.plugins.storage_file.storage import FileStorage

        return FileStorage(context)


@hookimpl
def tidelog_storage_backends() -> Iterable[StorageBackend]:
    """Return the backend `file`."""
    return (FileBackend(),)


@hookimpl
def tidelog_index_formats() -> Iterable[IndexFormat]:
    """Return the index format `sparse`, Kafka's own."""
    from tidelog.plugins.storage_file.indexes.sparse_index import SPARSE

    return (SPARSE,)


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys of log directories, recovery, segments and indexes."""
    from tidelog.kernel.config import declared_keys
    from tidelog.kernel.seams.storage import keys as segment_keys
    from tidelog.plugins.storage_file import keys

    return declared_keys(keys, segment_keys)

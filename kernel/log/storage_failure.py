"""Errors that a storage may not raise: those of a plugin that does not keep to the seam."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.kernel.errors import StorageError
from tidelog.kernel.rate_limit import RateLimit

if TYPE_CHECKING:
    from tidelog.kernel.seams.storage import PartitionStore

_log = logging.getLogger(__name__)

_INTERVAL_SECONDS = 600.0
_described = RateLimit(_INTERVAL_SECONDS)


def storage_failure(name: str, store: PartitionStore, call: str, error: Exception) -> StorageError:
    """Return the error for clients; log the class of the storage, the partition `name` and the traceback.

    The same failure of the same partition is logged once in ten minutes.
    """
    storage = f"{type(store).__module__}.{type(store).__qualname__}"
    if _described.admit(f"{storage} {call} {name}") is not None:
        _log.error("%s: the storage %s failed in %s", name, storage, call, exc_info=error)
    return StorageError(f"{name}: the storage {storage} failed in {call}: {error!r}")

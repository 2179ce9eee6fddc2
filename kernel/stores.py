"""Opening and closing of the two stores of a broker: the storage, and the metadata store.

Neither knows the other one. The metadata store may have a log in a directory of the storage, and the storage
has to know the topics before it opens their partitions, so they are opened in turns:

    1. the storage locks its directories
    2. the metadata store chooses one of them for its own files; all get their ids, and it is read
    3. the storage loads its directories, and finishes what a crash left half done; one that was refused
       before is as it was, with its clean shutdown file
    4. the metadata store accepts changes

and closed in turns, so that the metadata records a controlled shutdown only if all partitions are durable,
and a directory is clean only when nothing is written to it any more:

    1. the storage closes what is left of the partitions, durably
    2. the metadata store is closed, cleanly only after that
    3. the storage marks its directories clean, and unlocks them
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from tidelog.kernel import disk
from tidelog.kernel.errors import ConfigError, StorageError
from tidelog.kernel.metadata import NO_DIRECTORY
from tidelog.kernel.seams.storage.directories import KnownTopic, KnownTopics

if TYPE_CHECKING:
    from tidelog.kernel.seams.metadata import MetadataStore
    from tidelog.kernel.seams.storage import Storage
    from tidelog.kernel.seams.storage.directories import DataDirectories
    from tidelog.kernel.topic_partition import TopicPartition

_log = logging.getLogger(__name__)


async def open_stores(storage: Storage, metadata: MetadataStore) -> None:
    """Open both; after an error neither is open.

    Raises:
        ConfigError: one of them cannot be used; the message names the cause and the remedy.
    """
    try:
        await storage.open()
        await trio.to_thread.run_sync(_open_metadata, metadata, storage.data_directories)
        await storage.load(_known_topics(metadata))
        await metadata.activate()
    except (OSError, StorageError) as error:
        # Not `close`, which would mark directories as cleanly stopped that may be half recovered.
        storage.abandon()
        raise ConfigError(f"the log directories cannot be opened: {error}") from error
    # A cancellation too, as by a signal during a long recovery: the locks are released.
    except BaseException:
        storage.abandon()
        raise


def _open_metadata(metadata: MetadataStore, directories: DataDirectories | None) -> None:
    if directories is not None:
        stored_in = directories.containing(metadata.is_stored_in)
        candidates = [directory.path for directory in directories.in_service]
        directories.identify(metadata.choose_directory(candidates, stored_in, directories.offline))
    metadata.open(directories)


def _known_topics(metadata: MetadataStore) -> KnownTopics:
    def assigned(partition: TopicPartition) -> bytes | None:
        found = metadata.image.partition(partition)
        return None if found is None or found.directory == NO_DIRECTORY else found.directory

    topics = metadata.image.topics.values()
    known = {topic.name: KnownTopic(topic.topic_id, len(topic.partitions)) for topic in topics}
    return KnownTopics(known, metadata.deleted_topics, assigned)


async def close_stores(storage: Storage, metadata: MetadataStore) -> None:
    """Close both, however much of it fails.

    Raises:
        StorageError: something could not be made durable; its directory is not marked clean.
    """
    errors: list[str] = []
    try:
        with _noting(errors):
            await storage.finish_writes()
        with _noting(errors, "the metadata log"):
            await metadata.close(clean=not errors)
    finally:
        with _noting(errors):
            # Also if the metadata store failed in a way that is not noted: the locks have to be released.
            await storage.close(metadata.broker_epoch)
    if errors:
        raise StorageError("not everything could be closed properly: " + "; ".join(errors))


@contextmanager
def _noting(errors: list[str], what: str = "the storage") -> Generator[None]:
    """Add to `errors` what failed; what a full disk refuses is only logged, the next start recovers it."""
    try:
        yield
    except (OSError, StorageError) as error:
        if disk.is_full(error):
            _log.warning("%s could not be closed cleanly, the next start recovers it: %s", what, error)
        else:
            errors.append(f"{what}: {error}")

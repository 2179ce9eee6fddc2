"""Which version of each record a cluster's `metadata.version` calls for.

Source: Apache Kafka 4.3's `MetadataVersion`: 7 is 3.3-IV3, 15 brought controller registrations (3.7-IV0),
17 directory ids (3.7-IV2), 23 eligible leader replicas (4.0-IV1), 30 cordoned directories (4.3-IV0).
"""

from __future__ import annotations

OLDEST_WRITABLE = 17
"""Below it brokers do not tell their directories, and a partition's place would be lost."""
NEWEST_KNOWN = 30

_WITH_ELR = 23
_WITH_CORDONED_DIRECTORIES = 30


def partition_version(metadata_version: int) -> int:
    """The version of partition records, and of changes to partitions."""
    return 2 if metadata_version >= _WITH_ELR else 1


def registration_version(metadata_version: int) -> int:
    """The version of broker registrations."""
    return 4 if metadata_version >= _WITH_CORDONED_DIRECTORIES else 3


FENCING_VERSION = 0
SHUTDOWN_VERSION = 1
LOG_DIRS_VERSION = 2
"""A change of registration has the lowest version that can tell it."""

"""Requests as the kernel sees them, whatever their protocol: what they need to be allowed to."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class ResourceType(IntEnum):
    """What operations are performed on, with the codes of Kafka's `ResourceType`."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    """What is done with a resource, with the codes of Kafka's `AclOperation`."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Permission(NamedTuple):
    """An operation on resources of one type."""

    resource: ResourceType
    operation: Operation

    def __str__(self) -> str:
        return f"{self.operation.name} {self.resource.name}"

"""FindCoordinator (key 10): the coordinator of groups or transactional ids.

Up to version 3 a request has one key, whose coordinator is in the response itself; from version 4 on
(KIP-699) there are several of each.
"""

from __future__ import annotations

from typing import Final

from tidelog.plugins.protocol_kafka.messages.api import FIND_COORDINATOR
from tidelog.plugins.schema.declare import array, int8, int16, int32, string, struct
from tidelog.plugins.schema.types import STRING

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
SHARE_KEY: Final = 2


@struct(FIND_COORDINATOR.versions)
class FindCoordinatorRequest:
    """Request the coordinators of keys of one type."""

    key: str = string(versions="0-3", default="")
    key_type: int = int8(versions="1+", default=GROUP_KEY)
    coordinator_keys: list[str] = array(STRING, versions="4+", factory=list)


@struct()
class FindCoordinatorCoordinator:
    """The coordinator of one key; node id -1 and an empty host with an error."""

    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="4+", default=None, ignorable=True)


@struct(FIND_COORDINATOR.versions)
class FindCoordinatorResponse:
    """FindCoordinator response."""

    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    error_code: int = int16(versions="0-3", default=0)
    error_message: str | None = string(versions="1-3", nullable="1-3", default=None, ignorable=True)
    node_id: int = int32(versions="0-3", default=0)
    host: str = string(versions="0-3", default="")
    port: int = int32(versions="0-3", default=0)
    coordinators: list[FindCoordinatorCoordinator] = array(
        FindCoordinatorCoordinator, versions="4+", factory=list
    )

"""Metadata: brokers, topics, partitions and leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.asking import refresh, retrying
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.plugins.client.cluster import ClusterMetadata
    from tidelog.plugins.client.steps import Session, Steps


def metadata(
    session: Session, topics: Sequence[str] | None = None, *, create: bool = False
) -> Steps[ClusterMetadata]:
    """Return the metadata of the cluster and of some topics (None: of all), from any broker.

    Topics that do not exist are in `errors` of the result; with `create` the broker may create them instead.

    Raises:
        ClientError: no broker answered.
    """
    return (yield from retrying(session, lambda: _settled(session, topics, create=create)))


def _settled(session: Session, topics: Sequence[str] | None, *, create: bool) -> Steps[ClusterMetadata]:
    found = yield from refresh(session, topics, create=create)
    for name, code in found.errors.items():
        if code is ErrorCode.LEADER_NOT_AVAILABLE:  # the answer of brokers while they create a topic
            raise ErrorResponse(code, f"topic {name!r}")
    return found

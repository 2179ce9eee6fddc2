"""One request on its way to its handler: what it names, who sends it, and what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from tidelog.kernel.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
)
from tidelog.kernel.metadata.acls import CLUSTER_NAME
from tidelog.kernel.seams.authorizer import Subject, Undecided
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.plugins.protocol_http.interception import RequestingClient
from tidelog.plugins.protocol_http.messages import HttpProblem, HttpRequest
from tidelog.plugins.protocol_http.problems import UNKNOWN_PARTITION
from tidelog.plugins.protocol_http.reading import ReadLimits

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.seams.wire import Peer, WireContext
    from tidelog.kernel.topics import Topic
    from tidelog.plugins.protocol_http.routes import HttpRoute
    from tidelog.plugins.protocol_http.service import HttpService

_FAILURES: Mapping[ResourceType, type[BrokerError]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
}


@attrs.define
class Call:
    """A request with its route; `path` and `query` are the values of the route's parameters."""

    service: HttpService
    peer: Peer
    request: HttpRequest
    route: HttpRoute
    path: Mapping[str, str]
    query: Mapping[str, Any]
    records_received: int = 0

    @property
    def broker(self) -> WireContext:
        """The broker."""
        return self.service.broker

    @property
    def client(self) -> RequestingClient:
        """Who sends it."""
        host, _, listener, principal = self.peer
        return RequestingClient(listener, host, principal, self.request.headers.get("user-agent"))

    async def allows(
        self, resource: ResourceType, operation: AclOperation, name: str, *, audited: bool = True
    ) -> bool:
        """Return whether the client may do this; not `audited` is what only leaves something out."""
        authorization = self.broker.authorization
        if authorization is None:
            return True
        subject = Subject(self.peer.principal, self.peer.host, self.peer.listener_name)
        api = self.route.operation.name if self.route.operation else self.route.template
        while True:
            try:
                return authorization.allows(subject, operation, resource, name, api, audited=audited)
            except Undecided as undecided:
                await undecided.decided()

    async def need(self, resource: ResourceType, operation: AclOperation, name: str) -> None:
        """Refuse the request unless the client may do this.

        Raises:
            BrokerError: it may not.
        """
        if self.broker.authorization is not None and not await self.allows(resource, operation, name):
            kind = resource.name.capitalize()
            raise _FAILURES[resource](f"{kind} authorization failed: {operation.name} {name}")

    async def need_on_topic(self, operation: AclOperation, name: str) -> None:
        """Refuse the request unless the client may do this with the topic."""
        await self.need(ResourceType.TOPIC, operation, name)

    async def need_on_group(self, operation: AclOperation, name: str) -> None:
        """Refuse the request unless the client may do this with the group."""
        await self.need(ResourceType.GROUP, operation, name)

    async def need_on_cluster(self, operation: AclOperation) -> None:
        """Refuse the request unless the client may do this with the cluster."""
        await self.need(ResourceType.CLUSTER, operation, CLUSTER_NAME)

    def topic(self) -> Topic:
        """Return the topic that the path names, or raise `UnknownTopicOrPartition`."""
        return self.broker.topics.get(self.path["topic"])

    def partition(self) -> int:
        """Return the number of the partition that the path names.

        Raises:
            UnknownTopicOrPartition, HttpProblem: there is none.
        """
        topic, number = self.topic(), self.path["partition"]
        if number.isascii() and number.isdigit() and len(number) < 10 and int(number) < len(topic.partitions):
            return int(number)
        raise HttpProblem(404, f"topic {topic.name!r} has no partition {number[:100]!r}", UNKNOWN_PARTITION)

    def log(self) -> UnifiedLog:
        """Return the log of the partition that the path names, if this broker leads it."""
        return self.broker.replicas.log_of(self.path["topic"], self.partition())

    def limits(self) -> ReadLimits:
        """Return where reading for this request stops."""
        query, most_bytes = self.query, self.service.max_response_bytes
        isolation = query.get("isolation_level") == "read_committed"
        return ReadLimits(
            min(query.get("max_bytes", most_bytes), most_bytes),
            query.get("max_records", ReadLimits._field_defaults["max_records"]),
            Isolation.READ_COMMITTED if isolation else Isolation.READ_UNCOMMITTED,
        )

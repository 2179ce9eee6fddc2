"""Context of a request: the broker, the peer, and limits of the response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs

from tidelog.kernel.ids import encode_uuid_bytes
from tidelog.kernel.seams.requests import ANONYMOUS, Principal
from tidelog.plugins.protocol_kafka.client_telemetry import ClientTelemetry
from tidelog.plugins.protocol_kafka.fetch_session_cache import FetchSessionCache

if TYPE_CHECKING:
    from tidelog.kernel.errors import BrokerError
    from tidelog.kernel.request import SaslSession
    from tidelog.kernel.request.client_quotas import MutationAccount
    from tidelog.kernel.seams.coordination.consumer_groups import VisibleTopics
    from tidelog.kernel.seams.wire import Peer, WireContext


MAX_MESSAGE_BYTES = 64 * 1024
"""Limit of all error messages in one response, which then has codes only."""
MAX_MESSAGE_CHARACTERS = 1000
"""Limit of one error message, which may quote what a peer sent; a protocol string holds 32,767 bytes."""


class ServedVersions(NamedTuple):
    """Versions of one API that are served."""

    key: int
    min_version: int
    max_version: int


@attrs.define
class KnownAccess:
    """Topics, by name or id, that a principal may write or read, as one version of the authorizer has it."""

    version: object
    principal: Principal
    writable: set[str | bytes] = attrs.field(factory=set[str | bytes])
    readable: set[str | bytes] = attrs.field(factory=set[str | bytes])


@attrs.define
class RequestContext:
    """Broker and peer of a connection, and client id and API version of the current request.

    `fetch_max_bytes` and `max_idle_ms` are the values of `fetch.max.bytes` and `connections.max.idle.ms`,
    looked up once for each connection. `fetch_sessions` are those of all connections.

    One object serves a connection: requests are handled one at a time, so a handler that waits reads what it
    needs of `client_id` and `api_version` and finds it unchanged afterwards. `served` is what ApiVersions
    announces. `request_bytes` is the size of the current request with its header, `records_received` counts
    the records that it appended at once.
    `mutations` is what partitions that the current request creates and deletes count against, None where
    nothing limits that. `visible_topics` is what regular expressions of its members of groups may match, None
    for all topics.
    `principal` is that of the connection, `known_access` what it was allowed last; `sasl` is the session of
    one that authenticates, `sasl_has_headers` whether its tokens come in requests; `client_software` are name
    and version as ApiVersions got them, and `client_instance_id` is the last one that asked about client
    metrics.
    """

    broker: WireContext
    peer: Peer
    fetch_max_bytes: int
    max_idle_ms: int
    fetch_sessions: FetchSessionCache
    served: Sequence[ServedVersions] = ()
    telemetry: ClientTelemetry = attrs.field(factory=ClientTelemetry)
    principal: Principal = ANONYMOUS
    known_access: KnownAccess | None = None
    sasl: SaslSession | None = None
    sasl_has_headers: bool = True
    client_software: tuple[str, str] = ("unknown", "unknown")
    client_instance_id: bytes | None = None
    client_id: str | None = None
    api_version: int = 0
    request_bytes: int = 0
    message_bytes_left: int = MAX_MESSAGE_BYTES
    records_received: int = 0
    mutations: MutationAccount | None = None
    visible_topics: VisibleTopics | None = None

    def error_message(self, error: BrokerError) -> str | None:
        """Return the error message for the client, None once a response has `MAX_MESSAGE_BYTES` of them."""
        if self.message_bytes_left <= 0:
            return None
        text = str(error)
        if len(text) > MAX_MESSAGE_CHARACTERS:
            text = text[: MAX_MESSAGE_CHARACTERS - 1] + "…"
        self.message_bytes_left -= len(text)
        return text

    def client_attributes(self, instance_id: bytes) -> Mapping[str, str]:
        """Return what `match` of a subscription to client metrics may select a client by."""
        name, version = self.client_software
        return {
            "client_instance_id": encode_uuid_bytes(instance_id),
            "client_id": self.client_id or "",
            "client_software_name": name,
            "client_software_version": version,
            "client_source_address": self.peer.host,
            "client_source_port": str(self.peer.port),
        }

    def warn(self, what: str, error: BrokerError) -> None:
        """Log a refused request and its reason; the same warning is not repeated for a while."""
        self.broker.peer_warnings.warn(self.peer, what, error, alike=type(error).__name__)

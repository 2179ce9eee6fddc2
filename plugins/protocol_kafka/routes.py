"""Table of the APIs that are served, with their versions and handlers.

Handlers and their messages are imported at the first request of their API, so that a broker starts without
them. ApiVersions lists this table and the APIs that other plugins add.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from tidelog.kernel.errors import CoordinatorNotAvailable
from tidelog.kernel.seams.wire import Part, ProtocolViolation
from tidelog.plugins.protocol_kafka.codecs import small_decoder, small_encoder
from tidelog.plugins.protocol_kafka.context import RequestContext, ServedVersions
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS, APIS, PRODUCE, Api
from tidelog.plugins.protocol_kafka.messages.header import FIRST_FLEXIBLE, NEVER

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.backend import Coordinator
    from tidelog.plugins.protocol_kafka.apis import KafkaApi

NO_TAGGED_FIELDS = b"\0"
FIRST_WITH_BATCHES: Final = 3
"""The first version of Produce in which there are no message sets."""
FOR_MESSAGE_SETS: Final = ("tidelog.kernel.log.message_sets", "zlib_ng.zlib_ng")
HANDLERS = "tidelog.plugins.protocol_kafka.apis"

Handler: TypeAlias = Callable[[RequestContext, Any], object]
"""Returns the answer, None for none, an awaitable of either, or a generator that yields between small steps,
and returns the answer at its end."""


class Served(NamedTuple):
    """An API that is served: versions and the module in `apis` that has its `handle` function.

    With `abandonable` a request that waits ends when its client has left: it only reads, or waits for other
    clients. All others are completed, as in Kafka, since a part of their work may be done by then.
    """

    key: int
    min_version: int
    max_version: int
    module: str
    abandonable: bool = False

    @property
    def handler(self) -> str:
        """The name of its module."""
        return f"{HANDLERS}.{self.module}"


COORDINATED: Final = frozenset((8, 9, *range(11, 17), *range(24, 29), 42, 47, 61, 65, 66, 68, 69))
"""APIs that the coordinator serves; before the first of them its services are imported."""
SERVED: dict[int, Served] = {
    served.key: served
    for served in (
        Served(0, 0, 13, "produce"),
        Served(1, 0, 18, "fetch", abandonable=True),
        Served(2, 0, 11, "list_offsets", abandonable=True),
        Served(3, 0, 13, "metadata"),
        Served(8, 0, 10, "offset_commit"),
        Served(9, 0, 10, "offset_fetch"),
        Served(10, 0, 6, "find_coordinator"),
        Served(11, 0, 9, "join_group", abandonable=True),
        Served(12, 0, 4, "heartbeat"),
        Served(13, 0, 5, "leave_group"),
        Served(14, 0, 5, "sync_group", abandonable=True),
        Served(15, 0, 6, "describe_groups"),
        Served(16, 0, 5, "list_groups"),
        Served(18, 0, 5, "api_versions"),
        Served(19, 0, 7, "create_topics"),
        Served(20, 0, 6, "delete_topics"),
        Served(21, 0, 2, "delete_records"),
        Served(22, 0, 6, "init_producer_id"),
        Served(23, 0, 4, "offset_for_leader_epoch"),
        Served(24, 0, 5, "add_partitions_to_txn"),
        Served(25, 0, 4, "add_offsets_to_txn"),
        Served(26, 0, 5, "end_txn"),
        Served(27, 0, 2, "write_txn_markers"),
        Served(28, 0, 6, "txn_offset_commit"),
        Served(29, 0, 3, "describe_acls"),
        Served(30, 0, 3, "create_acls"),
        Served(31, 0, 3, "delete_acls"),
        Served(32, 0, 4, "describe_configs"),
        Served(33, 0, 2, "alter_configs"),
        Served(34, 0, 2, "alter_replica_log_dirs"),
        Served(35, 0, 5, "describe_log_dirs", abandonable=True),
        Served(37, 0, 3, "create_partitions"),
        Served(42, 0, 3, "delete_groups"),
        Served(43, 0, 2, "elect_leaders"),
        Served(44, 0, 1, "incremental_alter_configs"),
        Served(45, 0, 1, "alter_partition_reassignments"),
        Served(46, 0, 0, "list_partition_reassignments"),
        Served(47, 0, 0, "offset_delete"),
        Served(48, 0, 1, "describe_client_quotas", abandonable=True),
        Served(49, 0, 1, "alter_client_quotas"),
        Served(50, 0, 0, "describe_user_scram_credentials", abandonable=True),
        Served(51, 0, 0, "alter_user_scram_credentials"),
        Served(55, 0, 2, "describe_quorum"),
        Served(57, 0, 2, "update_features"),
        Served(60, 0, 2, "describe_cluster"),
        Served(61, 0, 0, "describe_producers"),
        Served(65, 0, 0, "describe_transactions"),
        Served(66, 0, 2, "list_transactions", abandonable=True),
        Served(71, 0, 0, "get_telemetry_subscriptions"),
        Served(72, 0, 0, "push_telemetry"),
        Served(68, 0, 1, "consumer_group_heartbeat"),
        Served(69, 0, 1, "consumer_group_describe"),
        Served(74, 0, 1, "list_config_resources"),
        Served(75, 0, 0, "describe_topic_partitions"),
    )
}


class Route(NamedTuple):
    """Decoder, encoder and handler of one version of one API.

    `decode` and `encode` raise `TooManyElements` for a message that takes longer than a step. What is not a
    handler of this plugin may keep its responses, to return one again.
    """

    name: str
    version: int
    decode: Callable[[memoryview, int], tuple[object, int]]
    handle: Handler
    response_class: type[object]
    encode: Callable[[Any, list[Part]], None]
    header_tags: bytes
    abandonable: bool
    request_class: type[object]
    keeps_responses: bool = False


class Routes(dict[tuple[int, int], Route]):
    """Routes by API key and version, each looked up at its first use and cached if it is served.

    All connections of a codec share one. Raises what `find_route` raises.
    """

    def __init__(self, added: Iterable[KafkaApi] = (), unannounced: Container[int] = ()) -> None:
        """Create the routes of Kafka's APIs and of `added`, the APIs of other plugins.

        ApiVersions does not list those of the keys `unannounced`, so that clients do not use them.
        """
        super().__init__()
        self._added = {api.key: api for api in added}
        spans = [(api.key, api.versions) for api in self._added.values()]
        self.served = (
            *(
                ServedVersions(api.key, api.min_version, api.max_version)
                for api in SERVED.values()
                if api.key not in unannounced
            ),
            *(ServedVersions(key, versions.low, versions.high) for key, versions in spans),
        )
        self.first_flexible: Mapping[int, int] = {
            **FIRST_FLEXIBLE,
            **{key: NEVER if span.flexible is None else span.flexible for key, span in spans},
        }

    def is_ready(self, asked: tuple[int, int]) -> bool:
        """Return whether a request of this key and version can be served without a call of `prepare`."""
        if asked in self:
            return True
        served = SERVED.get(asked[0])
        if served is None or asked[0] in self._added:
            return asked[0] not in self._added
        # Another version is refused, by ApiVersions with an answer.
        return not served.min_version <= asked[1] <= served.max_version and served.handler in sys.modules

    def prepare(self, asked: tuple[int, int], coordinator: Coordinator) -> None:
        """Import all that the first request of this key and version needs, and compile its codecs.

        This takes up to a tenth of a second, in a thread: see `import_in_thread`.
        """
        if asked[0] in COORDINATED:
            with suppress(CoordinatorNotAvailable):
                coordinator.import_services()
        if asked[0] == PRODUCE.key and asked[1] < FIRST_WITH_BATCHES:
            for module in FOR_MESSAGE_SETS:
                importlib.import_module(module)
        _ = self[asked]

    def __missing__(self, asked: tuple[int, int]) -> Route:
        added = self._added.get(asked[0])
        route = find_route(*asked) if added is None else _added_route(added, asked[1])
        if route.version == asked[1]:
            self[asked] = route
        return route


def _added_route(api: KafkaApi, version: int) -> Route:
    span = api.versions
    if not span.covers(version):
        raise _not_served(api.name, version, span.low, span.high)
    return Route(
        api.name,
        version,
        small_decoder(api.request, version),
        api.handle,
        api.response,
        small_encoder(api.response, version),
        NO_TAGGED_FIELDS if span.is_flexible(version) else b"",
        api.abandonable,
        api.request,
        keeps_responses=True,
    )


def find_route(api_key: int, version: int) -> Route:
    """Return the route of a request of one of Kafka's APIs.

    Raises:
        ProtocolViolation: the API or its version is not served; as in Kafka the connection is closed,
            except that an unknown version of ApiVersions is answered in version 0 with UNSUPPORTED_VERSION.
    """
    served = SERVED.get(api_key)
    if served is None:
        raise _api_not_served(api_key)
    api = APIS[api_key]
    if not served.min_version <= version <= served.max_version:
        if api is API_VERSIONS:
            return _unsupported_api_versions(api, served)
        raise _not_served(api.name, version, served.min_version, served.max_version)
    decode, handle = small_decoder(api.request_class, version), _handler(served.module, "handle")
    return _route(api, version, decode, handle, abandonable=served.abandonable)


def _api_not_served(api_key: int) -> ProtocolViolation:
    # Not at the top: nearly no broker needs it.
    from tidelog.plugins.protocol_kafka.unserved import UNSERVED

    known = UNSERVED.get(api_key)
    name, reason = ("", "") if known is None else (f" ({known.name})", f": {known.reason}")
    return ProtocolViolation(f"API key {api_key}{name} is not served here{reason}")


def _not_served(name: str, version: int, lowest: int, highest: int) -> ProtocolViolation:
    return ProtocolViolation(
        f"version {version} of {name} is not served here, versions {lowest} to {highest} are"
    )


def _unsupported_api_versions(api: Api, served: Served) -> Route:
    return _route(
        api, 0, lambda frame, _: (None, len(frame)), _handler(served.module, "handle_unsupported_version")
    )


def _route(
    api: Api,
    version: int,
    decode: Callable[[memoryview, int], tuple[object, int]],
    handle: Handler,
    *,
    abandonable: bool = False,
) -> Route:
    response_class = api.response_class
    tags = NO_TAGGED_FIELDS if api.response_header_version(version) else b""
    encode = small_encoder(response_class, version)
    return Route(
        api.name, version, decode, handle, response_class, encode, tags, abandonable, api.request_class
    )


def _handler(module: str, function: str) -> Handler:
    handler: Handler = getattr(importlib.import_module(f"{HANDLERS}.{module}"), function)
    return handler

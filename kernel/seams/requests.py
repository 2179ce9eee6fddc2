"""The seam of request stages: what is done before and after the handler of each request.

A stage is asked once for each API and version whether it has to do with it; only then it is called for its
requests. Where no stage is, a request costs what it costs without the seam.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol


class ResourceType(IntEnum):
    """What operations are performed on, with the codes of Kafka's `ResourceType`."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(IntEnum):
    """What is done with a resource, with Kafka's codes; ALL stands for any of them, in entries only."""

    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(NamedTuple):
    """An operation on resources of one type."""

    resource: ResourceType
    operation: AclOperation

    def __str__(self) -> str:
        return f"{self.operation.name} {self.resource.name}"


class Phase(IntEnum):
    """The order of stages, before the handler and after it; those of one phase are in the order of plugins.

    A stage gets what earlier phases let through, and the response with the throttle time that they set.
    """

    AUTHENTICATION = 1
    AUTHORIZATION = 2
    QUOTA = 3
    METRICS = 4
    LOG = 5
    FAULTS = 6


class Principal(NamedTuple):
    """Who sends a request, as in Kafka's `KafkaPrincipal`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of a connection that is not authenticated."""


class RequestedApi(NamedTuple):
    """One version of one API: its key, its name, and the operations for which an authorizer is asked."""

    key: int
    name: str
    version: int
    needs: Sequence[Permission]


class Request(NamedTuple):
    """A request with its decoded message, whose class depends on the protocol.

    `host` and `port` are the address of the client, `listener` is the name of the listener it connected to,
    `size_bytes` is that of the request on the wire, with its header.
    """

    api: RequestedApi
    listener: str
    host: str
    port: int
    principal: Principal
    client_id: str | None
    size_bytes: int
    message: object


class RequestStage(Protocol):
    """What is done before and after handlers; a stage overrides the methods that it needs.

    The methods run on the event loop and have to return soon. An error that is no `BrokerError` ends the
    connection, as one of a handler does.
    """

    phase: Phase

    def applies_to(self, api: RequestedApi) -> bool:
        """Return whether the stage is to be called for requests of this version of an API."""
        return True

    def before(self, request: Request) -> Awaitable[None] | None:
        """Prepare for a request, or refuse it: later stages and the handler are not called then.

        What takes time, as a question to another process, is an awaitable that is returned: the connection's
        next request waits for it, other connections do not.

        Raises:
            BrokerError: the request is refused with this error, where a response of its API has errors. The
                awaitable may raise it, too.
        """
        return None

    def after(self, request: Request, response: object | None, seconds: float) -> float:
        """Return for how many seconds the connection is to be throttled, 0 for not at all.

        It is called for each response, also that to a request that was refused, before it is sent. `response`
        is None if the client gets none; `seconds` is the time since the first stage was called. The longest
        time of all stages counts: the client gets it as `throttle_time_ms` with the response, at once, and
        its next request waits until then (KIP-219).
        """
        return 0.0

    def failed(self, request: Request, error: BaseException, seconds: float) -> None:
        """Note that a request has no outcome, called instead of `after`.

        Another error than a refusal was raised before the response was there, which ends the connection, or
        the request was given up (`trio.Cancelled`), as a fetch is whose client has left. The
        same when `after` of an earlier stage raises: the client does not get the response.
        """
        return


class Throttled(NamedTuple):
    """A response that is sent at once, and for how many seconds the connection's next request waits then."""

    response: object | None
    seconds: float

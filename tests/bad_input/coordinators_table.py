"""Producer ids and coordinators that do not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.find_coordinator import FindCoordinatorRequest
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdRequest

from .case import CLOSED, NO_SHARE_GROUPS, OK, Case, Differs
from .requests import Sent, ask

if TYPE_CHECKING:
    from .case import Sends
    from .raw_client import RawClient

BAD_REQUEST, NOT_AVAILABLE = "INVALID_REQUEST", "COORDINATOR_NOT_AVAILABLE"
BAD_TIMEOUT = "INVALID_TRANSACTION_TIMEOUT"
UNSTABLE = "Kafka serves this version with unstable.api.versions.enable only, and then answers as tidelog"
NO_SHARES = Differs(NOT_AVAILABLE, NO_SHARE_GROUPS)


def _begins(**fields: Any) -> Sends:
    settings: dict[str, Any] = {"transactional_id": None, "transaction_timeout_ms": 1000, **fields}
    return lambda _: ask(apis.INIT_PRODUCER_ID, 4, InitProducerIdRequest(**settings))


def _two_phase_commit(_: RawClient) -> Sent:
    request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=1000, enable_2pc=True)
    return ask(apis.INIT_PRODUCER_ID, 6, request)


def _finds(version: int, **fields: Any) -> Sends:
    return lambda _: ask(apis.FIND_COORDINATOR, version, FindCoordinatorRequest(**fields))


PRODUCERS = (
    Case("an empty transactional id", _begins(transactional_id=""), BAD_REQUEST),
    Case("an id without an epoch", _begins(producer_id=5), BAD_REQUEST),
    Case("an epoch without an id", _begins(producer_epoch=5), BAD_REQUEST),
    Case("an id that nobody was given", _begins(producer_id=5, producer_epoch=2), OK),
    Case("a negative id", _begins(producer_id=-5, producer_epoch=2), OK),
    Case("a negative timeout without a transaction", _begins(transaction_timeout_ms=-5), OK),
    *(
        Case(
            f"a transaction timeout of {told}",
            _begins(transactional_id="payments", transaction_timeout_ms=timeout_ms),
            BAD_TIMEOUT,
        )
        for told, timeout_ms in (("0", 0), ("24 days", 0x7FFFFFFF))
    ),
    Case(
        "a two-phase commit",
        _two_phase_commit,
        CLOSED,
        tidelog=Differs("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", UNSTABLE),
    ),
)

COORDINATORS = (
    Case("coordinators of type 9", _finds(3, key="group", key_type=9), BAD_REQUEST),
    Case("coordinators of type -1", _finds(3, key="group", key_type=-1), BAD_REQUEST),
    Case("coordinators of type 9 in version 6", _finds(6, coordinator_keys=["a"], key_type=9), BAD_REQUEST),
    Case(
        "a share coordinator before its version", _finds(5, coordinator_keys=["a"], key_type=2), BAD_REQUEST
    ),
    Case(
        "a share coordinator of what is no share",
        _finds(6, coordinator_keys=["a"], key_type=2),
        BAD_REQUEST,
        tidelog=NO_SHARES,
    ),
)

CASES = (*PRODUCERS, *COORDINATORS)

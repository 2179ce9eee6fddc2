"""Errors of the client: whether they may pass, whether the broker may have acted, and what they say."""

from __future__ import annotations

from tests.tables import for_each
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.errors import (
    BrokerClosed,
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    CorruptRecords,
    ErrorResponse,
    FencedProducer,
    IllegalTransactionState,
    InvalidAddress,
    ProducerInDoubt,
    ProtocolError,
    RequestTimedOut,
    UnknownNode,
    UnsendableRequest,
    UnsupportedByBroker,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

HERE, THERE = Address("a", 1), Address("::1", 2)
REFUSED = ErrorResponse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic 't'")


@for_each(
    ("error", "retriable", "reached_broker", "text"),
    [
        (ClientError("x"), False, True, "x"),
        (InvalidAddress("x"), False, False, "x"),
        (ClientClosed("x"), False, False, "x"),
        (
            BrokerUnreachable([(HERE, "refused"), (THERE, "no route")]),
            True,
            False,
            "no broker can be connected to (a:1: refused; [::1]:2: no route)",
        ),
        (UnknownNode(3), True, False, "the cluster's metadata names no broker 3"),
        (
            BrokerClosed("a:1", "Fetch v12", "reset"),
            True,
            True,
            "the connection to a:1 ended before it answered Fetch v12: reset",
        ),
        (BrokerClosed("a:1", "", "reset"), True, True, "the connection to a:1 ended: reset"),
        (RequestTimedOut("Fetch v12", 1.5), True, True, "no answer to Fetch v12 within 1.5 s"),
        (
            RequestTimedOut("Fetch v12", 30, REFUSED),
            True,
            True,
            "no answer to Fetch v12 within 30 s; the last error was: topic 't': TOPIC_AUTHORIZATION_FAILED",
        ),
        (
            ProtocolError("a:1", "Fetch", 12, "too short"),
            False,
            True,
            "a:1 sent something instead of an answer to Fetch v12: too short",
        ),
        (
            ProtocolError("a:1", "", -1, "too short"),
            False,
            True,
            "a:1 sent something without a request: too short",
        ),
        (
            UnsupportedByBroker("a:1", "Fetch", (4, 12), (0, 3)),
            False,
            False,
            "a:1 serves versions 0 to 3 of Fetch, and we speak 4 to 12",
        ),
        (
            UnsupportedByBroker("a:1", "Fetch", (4, 12), None),
            False,
            False,
            "a:1 serves no version of Fetch, and we speak 4 to 12",
        ),
        (UnsendableRequest("a:1", "no field"), False, False, "the request cannot be sent to a:1: no field"),
        (
            ProducerInDoubt("t-0"),
            False,
            False,
            "whether this producer's last batch for t-0 was appended is not known; continue with a new one",
        ),
        (IllegalTransactionState("tx", "it is open"), False, False, "producer 'tx': it is open"),
        (
            IllegalTransactionState("tx", "it has failed", REFUSED),
            False,
            False,
            "producer 'tx': it has failed; the error was: topic 't': TOPIC_AUTHORIZATION_FAILED",
        ),
        (CorruptRecords("t-0", "wrong CRC"), False, True, "records of t-0 cannot be read: wrong CRC"),
        (REFUSED, False, True, "topic 't': TOPIC_AUTHORIZATION_FAILED"),
        (
            ErrorResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, "t-0", "it moved"),
            True,
            True,
            "t-0: NOT_LEADER_OR_FOLLOWER (it moved)",
        ),
        (
            ErrorResponse.missing("t-0"),
            False,
            True,
            "t-0: UNKNOWN_SERVER_ERROR (the broker's answer does not mention it)",
        ),
        (FencedProducer(ErrorCode.PRODUCER_FENCED, "tx"), False, True, "tx: PRODUCER_FENCED"),
    ],
)
def test_errors_say_what_happened_and_what_may_be_done(
    error: ClientError, retriable: bool, reached_broker: bool, text: str
) -> None:
    assert (error.retriable, error.reached_broker, str(error)) == (retriable, reached_broker, text)


def test_errors_have_what_they_say() -> None:
    assert BrokerUnreachable([(HERE, "refused")]).attempts == ((HERE, "refused"),)
    closed = BrokerClosed("a:1", "Fetch v12", "reset")
    assert (closed.peer, closed.waiting_for) == ("a:1", "Fetch v12")
    late = RequestTimedOut("Fetch v12", 1.5, REFUSED)
    assert (late.what, late.timeout_s, late.last_error) == ("Fetch v12", 1.5, REFUSED)
    malformed = ProtocolError("a:1", "Fetch", 12, "too short")
    assert (malformed.peer, malformed.api, malformed.version, malformed.reason) == (
        "a:1",
        "Fetch",
        12,
        "too short",
    )
    old = UnsupportedByBroker("a:1", "Fetch", (4, 12), (0, 3))
    assert (old.peer, old.api, old.ours, old.theirs) == ("a:1", "Fetch", (4, 12), (0, 3))
    unsendable = UnsendableRequest("a:1", "no field")
    assert (unsendable.peer, unsendable.reason) == ("a:1", "no field")
    failed = IllegalTransactionState("tx", "it has failed", REFUSED)
    assert (failed.transactional_id, failed.state, failed.last_error) == ("tx", "it has failed", REFUSED)
    corrupt = CorruptRecords("t-0", "wrong CRC")
    assert (corrupt.where, corrupt.reason) == ("t-0", "wrong CRC")
    answered = ErrorResponse(ErrorCode.NOT_LEADER_OR_FOLLOWER, "t-0", "it moved")
    assert (answered.code, answered.subject, answered.detail) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        "t-0",
        "it moved",
    )
    assert (UnknownNode(3).node_id, ProducerInDoubt("t-0").where) == (3, "t-0")

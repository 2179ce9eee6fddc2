"""Errors of the client; each names the broker and the request that it is about.

`BrokerUnreachable`, `BrokerClosed` and `RequestTimedOut` are errors of the network, `ProtocolError` is the
broker's fault, `UnsupportedByBroker` and `UnsendableRequest` concern versions, `ErrorResponse` is a response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.plugins.client.cluster import Address

_MOST_SHOWN: Final = 5
"""Of several errors, in the text of one."""


class ClientError(TidelogError):
    """Base class of the errors that the client raises.

    Attributes:
        retriable: whether the same request may succeed later
        reached_broker: whether the broker may have acted on the request
    """

    retriable = False
    reached_broker = True


class InvalidAddress(ClientError, ValueError):
    """A bootstrap address does not have the form host:port."""

    reached_broker = False


class ClientClosed(ClientError):
    """The client is closed."""

    reached_broker = False


class OperationRaised(ClientError):
    """An operation raised something else than an error of the client; `error` is that.

    It is raised to the caller of the operation as it is.
    """

    def __init__(self, name: str, error: BaseException) -> None:
        self.error = error
        super().__init__(f"{name} raised {type(error).__name__}: {error}")


class BrokerUnreachable(ClientError):
    """No broker could be connected to.

    Attributes:
        attempts: the addresses that were tried, in order, each with the reason of its failure
    """

    retriable = True
    reached_broker = False

    def __init__(self, attempts: Sequence[tuple[Address, str]]) -> None:
        self.attempts = tuple(attempts)
        reasons = "; ".join(f"{address}: {reason}" for address, reason in self.attempts)
        super().__init__(f"no broker can be connected to ({reasons})")


class ZooKeeperFailed(ClientError):
    """ZooKeeper did not do what a client has asked it for; `retriable` if it may later."""

    def __init__(self, reason: str, *, is_passing: bool) -> None:
        self.retriable = is_passing
        super().__init__(reason)


class NoBrokerFound(ClientError):
    """ZooKeeper has not named any broker; the message says why."""

    retriable = True
    reached_broker = False


class UnknownNode(ClientError):
    """The cluster's metadata has no broker with this node id."""

    retriable = True
    reached_broker = False

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        super().__init__(f"the cluster's metadata names no broker {node_id}")


class BrokerClosed(ClientError):
    """The connection ended before the response was complete.

    Attributes:
        peer: address of the broker
        waiting_for: the request without a response, such as "Metadata v13"; empty between requests
    """

    retriable = True

    def __init__(self, peer: str, waiting_for: str, reason: str) -> None:
        self.peer = peer
        self.waiting_for = waiting_for
        before = f" before it answered {waiting_for}" if waiting_for else ""
        super().__init__(f"the connection to {peer} ended{before}: {reason}")


class AuthenticationRefused(ClientError):
    """The login of a client failed; another attempt with the same settings would fail, too.

    Attributes:
        peer: address of the broker
        mechanism: the mechanism of SASL
        reason: the broker's words, or what is wrong with its answer
    """

    reached_broker = False

    def __init__(self, peer: str, mechanism: str, reason: str) -> None:
        self.peer = peer
        self.mechanism = mechanism
        self.reason = reason
        super().__init__(f"the login at {peer} with {mechanism} failed: {reason}")


class SaslRefused(ValueError):
    """Reason of an `AuthenticationRefused`, without the broker and the mechanism; it has no secrets."""


class NoCredentials(Exception):
    """A client has nothing to log in with; the message says why, and has nothing of a secret.

    `may_pass`: it may be there at another attempt.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class RequestTimedOut(ClientError):
    """A response did not arrive in time.

    Attributes:
        what: the request or operation
        timeout_s: the timeout in seconds
        last_error: the error of the last attempt, when there were several
    """

    retriable = True

    def __init__(self, what: str, timeout_s: float, last_error: ClientError | None = None) -> None:
        self.what = what
        self.timeout_s = timeout_s
        self.last_error = last_error
        last = f"; the last error was: {last_error}" if last_error else ""
        super().__init__(f"no answer to {what} within {timeout_s:.3g} s{last}")


class ProtocolError(ClientError):
    """The broker sent a malformed or unexpected response; the connection is closed.

    Attributes:
        peer: address of the broker
        api: name of the API whose response was expected; empty for none
        version: version of that API, -1 for none
        reason: what is wrong
    """

    def __init__(self, peer: str, api: str, version: int, reason: str) -> None:
        self.peer = peer
        self.api = api
        self.version = version
        self.reason = reason
        expected = f"instead of an answer to {api} v{version}" if api else "without a request"
        super().__init__(f"{peer} sent something {expected}: {reason}")


class UnsupportedByBroker(ClientError):
    """The broker supports no version of an API that this client supports.

    Attributes:
        api: name of the API
        ours: lowest and highest version of this client
        theirs: lowest and highest version of the broker, None when it does not serve the API
    """

    reached_broker = False

    def __init__(self, peer: str, api: str, ours: tuple[int, int], theirs: tuple[int, int] | None) -> None:
        self.peer = peer
        self.api = api
        self.ours = ours
        self.theirs = theirs
        served = f"versions {theirs[0]} to {theirs[1]}" if theirs else "no version"
        super().__init__(f"{peer} serves {served} of {api}, and we speak {ours[0]} to {ours[1]}")


class UnsupportedGroupProtocol(ClientError):
    """The coordinator of a group does not serve `group_protocol="consumer"` (KIP-848: Apache Kafka 4.0)."""

    reached_broker = False

    def __init__(self, group: str, reason: str) -> None:
        self.group = group
        super().__init__(
            f"group {group!r}: its coordinator does not serve group_protocol='consumer', "
            f"use 'classic' instead: {reason}"
        )


class UnsendableRequest(ClientError):
    """The request cannot be encoded in the version of the API that is used with this broker."""

    reached_broker = False

    def __init__(self, peer: str, reason: str) -> None:
        self.peer = peer
        self.reason = reason
        super().__init__(f"the request cannot be sent to {peer}: {reason}")


class ProducerInDoubt(ClientError):
    """A batch of an idempotent producer may or may not be in the log, so its next sequence number is unknown.

    With a wrong sequence number the broker would drop new records as duplicates.
    """

    reached_broker = False

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(
            f"whether this producer's last batch for {where} was appended is not known; "
            "continue with a new one"
        )


class IllegalTransactionState(ClientError):
    """A transactional producer cannot do what it was called for in its present state.

    Attributes:
        transactional_id: the producer's transactional id
        state: the state, as a clause
        last_error: why the transaction has failed, None if it has not
    """

    reached_broker = False

    def __init__(self, transactional_id: str, state: str, last_error: ClientError | None = None) -> None:
        self.transactional_id = transactional_id
        self.state = state
        self.last_error = last_error
        because = f"; the error was: {last_error}" if last_error else ""
        super().__init__(f"producer {transactional_id!r}: {state}{because}")


class TransactionAborted(ClientError):
    """The record was not sent, or is not committed: its transaction was aborted."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        super().__init__(f"the transaction of producer {transactional_id!r} was aborted")


class CorruptRecords(ClientError):
    """Fetched bytes are not record batches, or a batch's CRC is wrong; `where` names topic and partition."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"records of {where} cannot be read: {reason}")


class ErrorResponse(ClientError):
    """The broker answered with an error.

    Attributes:
        code: the error
        subject: what it is about, such as a topic or "orders-3"
        detail: the broker's error message, None without any
    """

    def __init__(self, code: ErrorCode, subject: str, detail: str | None = None) -> None:
        self.code = code
        self.subject = subject
        self.detail = detail
        self.retriable = code.retriable
        super().__init__(f"{subject}: {code.name}" + (f" ({detail})" if detail else ""))

    @classmethod
    def missing(cls, subject: str) -> ErrorResponse:
        """Return the error for a response that lacks an entry for `subject`."""
        return cls(ErrorCode.UNKNOWN_SERVER_ERROR, subject, "the broker's answer does not mention it")


class PartlyFailed(ClientError):
    """Some of what a method was called for failed, and it was called for more than one thing.

    Attributes:
        outcomes: the result or the error of each
        errors: those that failed
    """

    def __init__(self, outcomes: Mapping[Any, object]) -> None:
        self.outcomes = outcomes
        self.errors = {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, ClientError)}
        self.retriable = all(error.retriable for error in self.errors.values())
        shown = [str(error) for error in self.errors.values()][:_MOST_SHOWN]
        more = len(self.errors) - len(shown)
        text = "; ".join([*shown, f"and {more} more"] if more else shown)
        super().__init__(f"{len(self.errors)} of {len(outcomes)} failed: {text}")


class FencedProducer(ErrorResponse):
    """A newer producer has the transactional id, or the transaction was open for longer than its timeout.

    This producer cannot do anything any more; what it wrote in an open transaction is not committed.
    """


class QueueFull(ClientError):
    """A producer's queue has no room for the record, or had none for as long as `max_block_ms` allows."""

    reached_broker = False

    def __init__(self, queued_bytes: int, queued_records: int) -> None:
        self.queued_bytes = queued_bytes
        self.queued_records = queued_records
        super().__init__(
            f"the producer's queue is full: {queued_records} records of {queued_bytes} bytes wait for brokers"
        )


class RecordDropped(ClientError):
    """The record was dropped from a full queue to make room for newer ones (`when_full="drop_oldest"`)."""

    reached_broker = False

    def __init__(self, where: str) -> None:
        super().__init__(f"a record for {where} was dropped from a full queue to make room for newer ones")


class RecordTooLarge(ClientError):
    """The record alone exceeds `max_request_size` or the whole queue of the producer."""

    reached_broker = False

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"a record of {size} bytes exceeds the limit of {limit} (max_request_size)")


class EncodingFailed(ClientError):
    """An encoder or partitioner raised, or did not return what it has to; the record is not sent."""

    reached_broker = False


class DeliveryTimedOut(ClientError):
    """No acknowledgement came within `delivery_timeout_ms`; `reached_broker` if the log may have it."""

    def __init__(
        self, where: str, timeout_s: float, last_error: ClientError | None, *, is_sent: bool
    ) -> None:
        self.timeout_s = timeout_s
        self.last_error = last_error
        self.reached_broker = is_sent
        last = f"; the last error was: {last_error}" if last_error else ""
        state = "it may be in the log" if is_sent else "it is not in the log"
        super().__init__(f"a record for {where} was not acknowledged within {timeout_s:.3g} s, {state}{last}")


class DeliveryInDoubt(ClientError):
    """An attempt had no answer, and a batch before this one failed: sent again it might be appended twice."""

    def __init__(self, where: str, last_error: ClientError | None) -> None:
        self.last_error = last_error
        last = f": {last_error}" if last_error else ""
        super().__init__(f"whether a record for {where} is in the log is not known{last}")


class DeliveryPending(ClientError):
    """The result of a record was asked for before there is one."""

    def __init__(self) -> None:
        super().__init__("the record is not acknowledged yet")


class DecodingFailed(ClientError):
    """A decoder of a consumer raised; its position is that of the record, which `seek` can pass over.

    Attributes:
        where: topic and partition
        offset: of the record
        part: "key" or "value"
    """

    def __init__(self, where: str, offset: int, part: str, error: Exception) -> None:
        self.where = where
        self.offset = offset
        self.part = part
        reason = f"{type(error).__name__}: {error}"
        super().__init__(f"the decoder of the {part} raised at offset {offset} of {where}: {reason}")


class NoOffset(ClientError):
    """A partition has no offset to begin with, and `auto_offset_reset` is none.

    Attributes:
        where: topic and partition
    """

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        super().__init__(
            f"{where} has no offset to begin with: {reason}; seek to one or set auto_offset_reset"
        )


class LogTruncated(ClientError):
    """The log of a partition has lost records that were read, and `auto_offset_reset` is none (KIP-320).

    Attributes:
        where: topic and partition
        position: the offset of the next record
        end_offset: where the records end that were read and are still there, -1 when it is unknown
    """

    def __init__(self, where: str, position: int, end_offset: int) -> None:
        self.where = where
        self.position = position
        self.end_offset = end_offset
        super().__init__(f"{where} was truncated to {end_offset} while it was read up to {position}")


class NotAssigned(ClientError):
    """A partition was named that is not assigned to the consumer, or what was called needs a group."""

    reached_broker = False

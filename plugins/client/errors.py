"""What can go wrong for a client: one small tree, each error with the broker and the request it is about.

`BrokerUnreachable`, `BrokerClosed` and `RequestTimedOut` are the network's, `ProtocolError` is the broker's
fault, `UnsupportedByBroker` and `UnsendableRequest` a matter of versions, `ErrorResponse` an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.plugins.client.addresses import Address


class ClientError(TidelogError):
    """Root of every error that the client core raises on purpose.

    Attributes:
        retriable: whether the same request may succeed later
        reached_broker: whether the broker may have acted on the request
    """

    retriable = False
    reached_broker = True


class InvalidAddress(ClientError, ValueError):
    """A bootstrap address is not of the form host:port."""

    reached_broker = False


class ClientClosed(ClientError):
    """The client was closed before."""

    reached_broker = False


class BrokerUnreachable(ClientError):
    """No broker could be connected to.

    Attributes:
        attempts: the addresses that were tried, in order, each with the reason that it failed for
    """

    retriable = True
    reached_broker = False

    def __init__(self, attempts: Sequence[tuple[Address, str]]) -> None:
        self.attempts = tuple(attempts)
        told = "; ".join(f"{address}: {reason}" for address, reason in self.attempts)
        super().__init__(f"no broker can be connected to ({told})")


class UnknownNode(ClientError):
    """The cluster's metadata names no broker with this node id."""

    retriable = True
    reached_broker = False

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        super().__init__(f"the cluster's metadata names no broker {node_id}")


class BrokerClosed(ClientError):
    """The connection ended before the answer was there.

    Attributes:
        peer: address of the broker
        waiting_for: what was asked and not answered, such as "Metadata v13"; empty between requests
    """

    retriable = True

    def __init__(self, peer: str, waiting_for: str, reason: str) -> None:
        self.peer = peer
        self.waiting_for = waiting_for
        before = f" before it answered {waiting_for}" if waiting_for else ""
        super().__init__(f"the connection to {peer} ended{before}: {reason}")


class RequestTimedOut(ClientError):
    """An answer did not come in time.

    Attributes:
        what: what was waited for
        timeout_s: for how long
        last_error: the error of the last try, when there were several
    """

    retriable = True

    def __init__(self, what: str, timeout_s: float, last_error: ClientError | None = None) -> None:
        self.what = what
        self.timeout_s = timeout_s
        self.last_error = last_error
        last = f"; the last error was: {last_error}" if last_error else ""
        super().__init__(f"no answer to {what} within {timeout_s:.3g} s{last}")


class ProtocolError(ClientError):
    """The broker sent something that is not an answer in Kafka's protocol; the connection is given up.

    Attributes:
        peer: address of the broker
        api: name of the API whose answer was expected; empty when none was
        version: version of that API, -1 when none was expected
        reason: what is wrong
    """

    def __init__(self, peer: str, api: str, version: int, reason: str) -> None:
        self.peer = peer
        self.api = api
        self.version = version
        self.reason = reason
        expected = f"instead of an answer to {api} v{version}" if api else "that nobody asked for"
        super().__init__(f"{peer} sent something {expected}: {reason}")


class UnsupportedByBroker(ClientError):
    """The broker serves no version of an API that we can speak.

    Attributes:
        api: name of the API
        ours: lowest and highest version that we have
        theirs: lowest and highest version that the broker serves, None when it does not serve the API
    """

    reached_broker = False

    def __init__(self, peer: str, api: str, ours: tuple[int, int], theirs: tuple[int, int] | None) -> None:
        self.peer = peer
        self.api = api
        self.ours = ours
        self.theirs = theirs
        served = f"versions {theirs[0]} to {theirs[1]}" if theirs else "no version"
        super().__init__(f"{peer} serves {served} of {api}, and we speak {ours[0]} to {ours[1]}")


class UnsendableRequest(ClientError):
    """The version of the API that is spoken with this broker cannot carry the request."""

    reached_broker = False

    def __init__(self, peer: str, reason: str) -> None:
        self.peer = peer
        self.reason = reason
        super().__init__(f"the request cannot be sent to {peer}: {reason}")


class ProducerInDoubt(ClientError):
    """A batch of an idempotent producer may or may not be in the log, so its next sequence number is unknown.

    Under a wrong number the broker would take new records for a repetition and drop them.
    """

    reached_broker = False

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(
            f"whether this producer's last batch for {where} was appended is not known; go on with a new one"
        )


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
        detail: the broker's own words, None without any
    """

    def __init__(self, code: ErrorCode, subject: str, detail: str | None = None) -> None:
        self.code = code
        self.subject = subject
        self.detail = detail
        self.retriable = code.retriable
        super().__init__(f"{subject}: {code.name}" + (f" ({detail})" if detail else ""))

    @classmethod
    def of_silence(cls, subject: str) -> ErrorResponse:
        """The broker's answer lacks what it was asked about."""
        return cls(ErrorCode.UNKNOWN_SERVER_ERROR, subject, "the broker's answer does not mention it")

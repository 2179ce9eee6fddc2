"""What a load fails with; messages are sentences for the console, with the remedy."""

from __future__ import annotations

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.client.errors import BrokerUnreachable, ClientError, ErrorResponse, ProtocolError
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode


class LoadFailed(TidelogError):
    """A load cannot begin or continue; the message names the reason and the remedy."""


def client_error_text(error: ClientError) -> str:
    """Return a sentence for an error of the client."""
    match error:
        case BrokerUnreachable():
            tried = ", nor at ".join(f"{address} ({reason})" for address, reason in error.attempts)
            return f"No broker answers at {tried}. Is it running? --bootstrap-server names another address."
        case ProtocolError():
            return (
                f"What listens at {error.peer} does not speak Kafka's protocol ({error.reason}). Is this the "
                "address of a broker, and does its listener need TLS (--option kafka.security.protocol=SSL)?"
            )
        case ErrorResponse(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            subject = error.subject[:1].upper() + error.subject[1:]
            return f"{subject} does not exist. `tidelog topics list` lists the topics."
        case _:
            text = str(error)
            return f"{text[:1].upper()}{text[1:]}."

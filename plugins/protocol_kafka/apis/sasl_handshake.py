"""SaslHandshake (API 17): the client chooses a mechanism. Source: Kafka's `SaslServerAuthenticator`."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError, IllegalSaslState
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Begin an exchange; ILLEGAL_SASL_STATE where none may begin, as on a listener without SASL."""
    session = context.sasl
    try:
        if session is None:
            raise IllegalSaslState("this listener has no SASL")
        session.begin(request.mechanism)
    except BrokerError as error:
        enabled = [] if session is None or isinstance(error, IllegalSaslState) else session.enabled
        return SaslHandshakeResponse(error_code=error_code(error), mechanisms=enabled)
    context.sasl_has_headers = context.api_version > 0
    return SaslHandshakeResponse(error_code=0, mechanisms=session.enabled)

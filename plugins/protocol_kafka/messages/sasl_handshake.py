"""SaslHandshake (key 17): choose the mechanism by which the client authenticates (KIP-43)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import SASL_HANDSHAKE
from tidelog.plugins.schema.declare import array, int16, string, struct
from tidelog.plugins.schema.types import STRING


@struct(SASL_HANDSHAKE.versions)
class SaslHandshakeRequest:
    """Choose a mechanism. After version 0 its tokens are sent as frames without headers."""

    mechanism: str = string()


@struct(SASL_HANDSHAKE.versions)
class SaslHandshakeResponse:
    """SaslHandshake response, with the mechanisms that the broker has."""

    error_code: int = int16()
    mechanisms: list[str] = array(STRING)

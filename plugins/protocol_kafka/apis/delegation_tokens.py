"""What the APIs of delegation tokens share: who may use them, and principals as images have them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.requests import ANONYMOUS, Principal
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.context import RequestContext

NO_TIME: Final = -1
"""A time in the response to a request that is not allowed."""


def is_allowed(context: RequestContext) -> bool:
    """Return whether tokens may be requested on a connection.

    Its client has to be authenticated, by SASL or a certificate, and not by a token: else the holder of one
    could have it outlive its time by requesting others.
    """
    if context.sasl is not None:
        return not context.sasl.by_token
    return context.principal != ANONYMOUS


async def with_new_expiry(
    context: RequestContext,
    change: Callable[[bytes, str, int], Awaitable[int]],
    hmac: bytes,
    period_ms: int,
) -> tuple[ErrorCode, int]:
    """Change when the token with this secret expires; return the error code and the time."""
    if not is_allowed(context):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME
    try:
        return ErrorCode.NONE, await change(hmac, str(context.principal), period_ms)
    except BrokerError as error:
        context.warn("refusing to change when a delegation token expires:", error)
        return error_code(error), 0


def as_principal(text: str) -> Principal:
    """Return a principal of an image."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)

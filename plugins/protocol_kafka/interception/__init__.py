"""Interceptors around the handlers of Produce and Fetch, where a broker has some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.interception.fetching import InterceptedFetch
from tidelog.plugins.protocol_kafka.interception.producing import InterceptedProduce
from tidelog.plugins.protocol_kafka.messages.api import FETCH, PRODUCE

if TYPE_CHECKING:
    from tidelog.kernel.request.interception import Interception
    from tidelog.plugins.protocol_kafka.apis import Handler, KafkaApi

__all__ = ["intercepted"]


def intercepted(interception: Interception, api: KafkaApi, handle: Handler) -> Handler:
    """Return a handler whose batches pass the interceptors; that of another API as it is."""
    if api.key == PRODUCE.key:
        return InterceptedProduce(interception, handle)
    if api.key == FETCH.key:
        return InterceptedFetch(interception, handle)
    return handle

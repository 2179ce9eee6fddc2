"""Fetch with interceptors: what the handler has read is shown to them before it is sent."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple, cast

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.interceptors import FetchInfo
from tidelog.kernel.seams.storage import LogSlice
from tidelog.plugins.protocol_kafka.apis.fetch_interceptors import fetch_info, fetch_interceptors
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.fetch import FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.kernel.request.active_interceptor import ActiveInterceptor
    from tidelog.kernel.request.interception import Interception, TopicInterceptors
    from tidelog.plugins.protocol_kafka.apis import Handler, RequestContext

BATCHES_SINCE = 4
"""Before, batches are converted piece by piece, and intercepted where each piece is read."""
MAX_RESPONSE_BYTES = 8 * 1024 * 1024
"""Limit of `max_bytes`: what is shown is in memory until it is sent."""


class _Shown(NamedTuple):
    """Records of a response that interceptors are to see."""

    data: PartitionData
    stored: LogSlice
    fetch: FetchInfo
    interceptors: TopicInterceptors
    chosen: Sequence[ActiveInterceptor]


class InterceptedFetch:
    """The handler of Fetch with interceptors behind it."""

    __slots__ = ("_handle", "_interception")

    def __init__(self, interception: Interception, handle: Handler) -> None:
        self._interception = interception
        self._handle = handle

    def __call__(self, context: RequestContext, request: FetchRequest) -> object:
        """Read, and have interceptors see what was read."""
        if context.api_version < BATCHES_SINCE:
            return self._handle(context, request)
        request.max_bytes = min(request.max_bytes, MAX_RESPONSE_BYTES)
        outcome = self._handle(context, request)
        if isinstance(outcome, Awaitable):
            return self._show_later(context, cast("Awaitable[FetchResponse]", outcome))
        response = cast("FetchResponse", outcome)
        shown = self._to_show(context, response)
        return _shown_response(context, response, shown) if shown else response

    async def _show_later(self, context: RequestContext, outcome: Awaitable[FetchResponse]) -> FetchResponse:
        response = await outcome
        return await _shown_response(context, response, self._to_show(context, response))

    def _to_show(self, context: RequestContext, response: FetchResponse) -> list[_Shown]:
        """Return what of a response interceptors are to see; partitions they refuse get their error now."""
        found: list[_Shown] = []
        topics, interception = context.broker.topics, self._interception
        for each in response.responses:
            topic = topics.find(each.topic) if each.topic else topics.find_by_id(each.topic_id)
            if topic is None:
                continue
            interceptors = fetch_interceptors(interception, context, topic)
            if interceptors is None:
                continue
            for data in each.partitions:
                stored = data.records
                if not isinstance(stored, LogSlice) or not stored.size:
                    continue
                fetch = fetch_info(context, topic.name, data.partition_index)
                try:
                    chosen = interceptors.shown_by(fetch)
                except BrokerError as error:
                    _refuse(context, fetch, data, error)
                    continue
                if chosen:
                    found.append(_Shown(data, stored, fetch, interceptors, chosen))
        return found


async def _shown_response(
    context: RequestContext, response: FetchResponse, shown: list[_Shown]
) -> FetchResponse:
    for data, stored, fetch, interceptors, chosen in shown:
        try:
            data.records = await interceptors.show(fetch, stored, chosen)
        except BrokerError as error:
            _refuse(context, fetch, data, error)
    return response


def _refuse(context: RequestContext, fetch: FetchInfo, data: PartitionData, error: BrokerError) -> None:
    context.warn(f"an interceptor refuses a fetch of {fetch.topic}-{fetch.partition} for", error)
    data.error_code = error_code(error)
    data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
    data.aborted_transactions = None
    data.records = b""

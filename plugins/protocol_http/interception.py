"""What interceptors get of requests over HTTP, and where they are asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernel.errors import BrokerError, InvalidTopic
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.seams.interceptors import BatchInfo, FetchInfo
from tidelog.kernel.seams.partition import AppendResult

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.request.interception import TopicInterceptors
    from tidelog.kernel.seams.requests import Principal
    from tidelog.kernel.seams.storage import LogSlice
    from tidelog.kernel.seams.wire import WireContext


class RequestingClient(NamedTuple):
    """Who sends a request: the listener, the address, the principal, and what `User-Agent` says."""

    listener: str
    host: str
    principal: Principal
    client_id: str | None


async def append(
    broker: WireContext, client: RequestingClient, log: UnifiedLog, batch: bytearray
) -> AppendResult:
    """Append a batch as interceptors leave it, and wait until it may be acknowledged.

    Raises:
        BrokerError: an interceptor or the log refuses it.
    """
    topic, partition = log.topic_partition
    interception = broker.interception
    interceptors = None if interception is None else interception.of(client.listener, topic)
    if interceptors is None or not interceptors.intercepts_appends:
        return await _append(log, batch)
    return await _intercepted(broker, client, interceptors, log, batch, partition)


async def _intercepted(
    broker: WireContext,
    client: RequestingClient,
    interceptors: TopicInterceptors,
    log: UnifiedLog,
    batch: bytearray,
    partition: int,
) -> AppendResult:
    info = BatchInfo(log.topic_partition.topic, partition, parse_header(batch), len(batch), *client)
    route = interceptors.admit(info)
    if route is not None:
        topic = broker.topics.get(route)
        if topic.is_internal:
            raise InvalidTopic(f"{route} is the broker's own: no batch is routed to it")
        partition %= len(topic.partitions)
        result = await _append(topic.partitions[partition].log, batch)
        interceptors.appended(info._replace(topic=route, partition=partition), result)
        return result
    if interceptors.rewrites:
        # What it returns may be a view that cannot be written.
        batch = bytearray(await interceptors.rewrite(info, batch))
    result = await _append(log, batch)
    interceptors.appended(info, result)
    return result


async def _append(log: UnifiedLog, batch: bytearray) -> AppendResult:
    log.traffic.produces += 1
    try:
        appended = log.append_as_leader(batch)
        result = appended if isinstance(appended, AppendResult) else await appended
    except BrokerError:
        log.traffic.failed_produces += 1
        raise
    if result.flush_due:
        await log.wait_flushed(result.last_offset)
    return result


def shown_in_thread(
    broker: WireContext, client: RequestingClient, log: UnifiedLog
) -> Callable[[LogSlice], LogSlice] | None:
    """Return what shows a slice of the log to interceptors, blocking; None if none is to see it.

    Raises:
        BrokerError: the client may not fetch the partition.
    """
    interception = broker.interception
    topic, partition = log.topic_partition
    interceptors = None if interception is None else interception.of(client.listener, topic)
    if interceptors is None or not interceptors.shows:
        return None
    fetch = FetchInfo(topic, partition, *client)
    chosen = interceptors.shown_by(fetch)
    return partial(interceptors.show_in_thread, fetch, chosen=chosen) if chosen else None

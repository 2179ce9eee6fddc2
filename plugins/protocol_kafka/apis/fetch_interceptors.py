"""Which interceptors see what a client fetches, and what they get of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidelog.kernel.seams.interceptors import FetchInfo

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog
    from tidelog.kernel.request.interception import Interception, TopicInterceptors
    from tidelog.kernel.seams.storage import LogSlice
    from tidelog.kernel.topics import Topic
    from tidelog.plugins.protocol_kafka.context import RequestContext


def fetch_interceptors(
    interception: Interception, context: RequestContext, topic: Topic
) -> TopicInterceptors | None:
    """Return the interceptors that are to see what is fetched of a topic, None without any."""
    if topic.is_internal:
        return None
    found = interception.of(context.peer.listener_name, topic.name)
    return found if found is not None and found.shows else None


def fetch_info(context: RequestContext, topic: str, partition: int) -> FetchInfo:
    """Return what interceptors get of a fetch."""
    host, _, listener, _ = context.peer
    return FetchInfo(topic, partition, listener, host, context.principal, context.client_id)


def shown_in_thread(context: RequestContext, log: UnifiedLog) -> Callable[[LogSlice], LogSlice] | None:
    """Return what shows a slice of the log to interceptors, blocking; None if none is to see it.

    Raises:
        BrokerError: the client may not fetch the partition.
    """
    interception = context.broker.interception
    topic = None if interception is None else context.broker.topics.find(log.topic_partition.topic)
    if interception is None or topic is None:
        return None
    interceptors = fetch_interceptors(interception, context, topic)
    if interceptors is None:
        return None
    fetch = fetch_info(context, *log.topic_partition)
    chosen = interceptors.shown_by(fetch)
    return partial(interceptors.show_in_thread, fetch, chosen=chosen) if chosen else None

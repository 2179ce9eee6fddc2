"""Fetch (API 1): read batches from partitions, waiting for more when there is too little.

The response has regions of segment files, which the server sends without copying. A read that would have
to wait for the disk is repeated in a thread. A full request names every partition (`full_fetch`), and may
open a fetch session, in which later requests are incremental (`incremental_fetch`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator

from tidelog.kernel.pace import run_in_steps, run_to_end
from tidelog.plugins.protocol_kafka.apis.common_fields import isolation_of
from tidelog.plugins.protocol_kafka.apis.fetch_reads import TOPIC_IDS_SINCE
from tidelog.plugins.protocol_kafka.apis.full_fetch import fetch_all
from tidelog.plugins.protocol_kafka.apis.incremental_fetch import fetch_incrementally
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.fetch_session import IncrementalFetchSession
from tidelog.plugins.protocol_kafka.messages.fetch import FetchRequest, FetchResponse

NO_SESSION = 0
INITIAL_EPOCH = 0
"""Epoch of a full request that opens a session, and closes the one that it names."""
FINAL_EPOCH = -1
"""Epoch of a full request outside of sessions, which closes the one that it names."""


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Read the partitions; wait up to `max_wait_ms` until there are `min_bytes`."""
    epoch = request.session_epoch
    if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        return fetch_incrementally(context, request)
    if request.session_id != NO_SESSION:
        # As in Apache Kafka, a full request ends the session that it names, whatever its epoch.
        context.fetch_sessions.remove(request.session_id)
    response = fetch_all(context, request)
    if epoch == FINAL_EPOCH:
        return response
    if isinstance(response, FetchResponse):
        # It has few partitions.
        return run_to_end(_open_session(context, request, response))
    return _fetch_and_open_session(context, request, response)


async def _fetch_and_open_session(
    context: RequestContext, request: FetchRequest, response: Awaitable[FetchResponse]
) -> FetchResponse:
    return await run_in_steps(_open_session(context, request, await response))


def _open_session(
    context: RequestContext, request: FetchRequest, response: FetchResponse
) -> Generator[None, None, FetchResponse]:
    """Open a session with what the client gets, if there is a place for it."""
    cache = context.fetch_sessions
    size = sum(len(topic.partitions) for topic in response.responses)
    by_id = context.api_version >= TOPIC_IDS_SINCE
    privileged = max(request.replica_id, request.replica_state.replica_id) >= 0
    if not cache.make_way(size, privileged=privileged):
        return response
    session = IncrementalFetchSession(
        privileged=privileged, uses_topic_ids=by_id, isolation=isolation_of(request.isolation_level)
    )
    yield from session.fill(request.topics, response.responses, context.broker.topics)
    # Others may have come in between.
    if cache.make_way(size, privileged=privileged):
        cache.add(session)
        response.session_id = session.id
    return response

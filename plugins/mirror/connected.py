"""A mirror with its clients, run under trio until it is cancelled or at the end."""

from __future__ import annotations

from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

import attrs

from tidelog.plugins.client import ClientSettings, RetryPolicy
from tidelog.plugins.mirror.cluster_client import EngineClient
from tidelog.plugins.mirror.mirror import Mirror

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers
    from tidelog.plugins.mirror.settings import MirrorSettings
    from tidelog.plugins.mirror.statistics import MirrorStatistics

CLIENT_ID: Final = "tidelog-mirror"
_RETRY: Final = RetryPolicy(retries=12, backoff_s=0.02, max_backoff_s=1.0, missing_topic_s=2.0)
"""Short at first: a transaction often begins while the markers of the one before are still written."""
_MOST_RESPONSE_BYTES: Final = 256 * 1024 * 1024


@asynccontextmanager
async def connected(
    settings: MirrorSettings, target: BootstrapServers, statistics: MirrorStatistics
) -> AsyncGenerator[Mirror]:
    """Give a mirror into the cluster at `target`, which connects at its first use."""
    client = ClientSettings(
        client_id=f"{CLIENT_ID}.{settings.name}",
        request_timeout_s=settings.request_timeout_s,
        operation_timeout_s=2 * settings.request_timeout_s,
        max_response_bytes=_MOST_RESPONSE_BYTES,
        retry=_RETRY,
    )
    of_source = attrs.evolve(client, security=settings.source_security)
    of_target = attrs.evolve(client, security=settings.target_security)
    from_brokers = settings.ensemble or settings.bootstrap
    with ExitStack() as stack:
        source, source_admin, target_client = (
            stack.enter_context(EngineClient(bootstrap, each))
            for bootstrap, each in (
                (from_brokers, of_source),
                (from_brokers, of_source),
                (target, of_target),
            )
        )
        yield Mirror(settings, source, source_admin, target_client, statistics)

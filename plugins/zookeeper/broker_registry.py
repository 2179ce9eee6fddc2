"""The registry of brokers as clients read it, in the layouts of Kafka 0.7 and of 0.8 and later."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tidelog.plugins.zookeeper.errors import NoNode
from tidelog.plugins.zookeeper.layouts import BROKER_IDS
from tidelog.plugins.zookeeper.nodes import PLAINTEXT, address_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.plugins.zookeeper.session import Watch, ZooKeeperRequests


async def registered_brokers(
    zookeeper: ZooKeeperRequests, on_change: Watch, protocol: str = PLAINTEXT
) -> Sequence[tuple[str, int]]:
    """Return where each registered broker is reached by a security protocol, and watch for others.

    Only methods of `ZooKeeper` are awaited. Raises what they do, but `NoNode`.
    """
    found: list[tuple[str, int]] = []
    try:
        names = await zookeeper.children(BROKER_IDS, on_change)
    except NoNode:
        # No broker was ever here, so nothing is watched.
        return found
    for name in sorted(names):
        # One that has gone since then: that is a change of its own.
        with suppress(NoNode):
            there = await zookeeper.read(f"{BROKER_IDS}/{name}", on_change)
            address = address_by(protocol, there.value)
            if address is not None:
                found.append(address)
    return found

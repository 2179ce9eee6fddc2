"""Members and old console consumers in one group divide the partitions, through joins, leaves and kills."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from kazoo.exceptions import NoNodeError

from tests.deadlines import DEADLINE_S
from tests.peers import running_tidelog, running_zookeeper
from tests.plugins.zookeeper.consumers.recording import RecordedFetching
from tests.plugins.zookeeper.observer import observing
from tests.plugins.zookeeper.test_old_clients import Cluster, console_consumer
from tidelog.plugins.zookeeper.connect_string import parse_connect_string
from tidelog.plugins.zookeeper.consumers.member import ZooKeeperMember
from tidelog.plugins.zookeeper.consumers.membership import MembershipRules
from tidelog.plugins.zookeeper.consumers.registries import new_consumer_id
from tidelog.plugins.zookeeper.consumers.subscriptions import Subscription
from tidelog.plugins.zookeeper.kazoo_client import KazooZooKeeper

pytestmark = pytest.mark.long

GROUP, TOPIC, PARTITIONS = "mixed", "shared", 7
SESSION_MS = 2000


@asynccontextmanager
async def running_member(connect: str) -> AsyncGenerator[tuple[ZooKeeperMember, RecordedFetching]]:
    """A member with a client of its own; at the end its session is closed without that it leaves."""
    zookeeper = KazooZooKeeper(parse_connect_string(connect), SESSION_MS, 10)
    fetching = RecordedFetching()
    rules = MembershipRules(new_consumer_id(GROUP, 0), backoff_s=0.5, pause_after_s=0.3)
    member = ZooKeeperMember(zookeeper, GROUP, Subscription({TOPIC: 1}), fetching, rules, now_ms=lambda: 0)
    async with zookeeper.running(), trio.open_nursery() as nursery:
        nursery.start_soon(member.run)
        yield member, fetching
        nursery.cancel_scope.cancel()


class Owners:
    """The registry of owners, as another client sees it."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self._folder = f"/consumers/{GROUP}/owners/{TOPIC}"

    def shares(self) -> list[int]:
        """How many partitions each member owns, the largest number first."""
        owners = Counter(self._read().values())
        return sorted(owners.values(), reverse=True)

    def _read(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        names = self._observer.get_children(self._folder) if self._observer.exists(self._folder) else []
        for name in names:
            # Released since then.
            with suppress(NoNodeError):
                found[name] = self._observer.get(f"{self._folder}/{name}")[0]
        return found


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - it is another process
            await trio.sleep(0.1)


def even_shares(members: int) -> list[int]:
    each, more = divmod(PARTITIONS, members)
    return [each + 1] * more + [each] * (members - more)


@pytest.mark.parametrize("release", ["0.8.2.2", "0.10.2.2"])
async def test_members_and_old_consumers_divide_the_partitions(release: str, tmp_path: Path) -> None:
    random = Random(release)
    with ExitStack() as stack:
        server = stack.enter_context(running_zookeeper(tmp_path / "zookeeper"))
        (tmp_path / "tidelog").mkdir()
        settings = {"zookeeper.connect": f"{server.connect}/kafka"}
        broker = stack.enter_context(running_tidelog(tmp_path / "tidelog", settings=settings))
        cluster = Cluster(f"{server.connect}/kafka", broker.bootstrap)
        await trio.to_thread.run_sync(cluster.topics, "create", TOPIC, "--partitions", str(PARTITIONS))
        owners = Owners(stack.enter_context(observing(cluster.connect)))
        folder = tmp_path / "old"
        folder.mkdir()
        timeouts = {
            "zookeeper_session_timeout_ms": str(SESSION_MS),
            "rebalance_backoff_ms": "500",
            "rebalance_max_retries": "20",
            "group_id": GROUP,
        }
        with console_consumer(release, cluster, folder, "--topic", TOPIC, **timeouts):
            await until(lambda: owners.shares() == [PARTITIONS])
            for _ in range(8):
                async with running_member(cluster.connect) as (one, fetching):
                    await until(lambda: owners.shares() == even_shares(2))
                    assert len(fetching.fetched) in even_shares(2)
                    async with running_member(cluster.connect) as (_, second):
                        await until(lambda: owners.shares() == even_shares(3))
                        await until(lambda: not fetching.fetched.keys() & second.fetched.keys())
                    await until(lambda: owners.shares() == even_shares(2))
                    if random.random() < 0.5:
                        one.leave()
                await until(lambda: owners.shares() == [PARTITIONS])
        # Killed: its session expires while a member waits for its partitions.
        async with running_member(cluster.connect) as (_, fetching):
            await until(lambda: len(fetching.fetched) == PARTITIONS)

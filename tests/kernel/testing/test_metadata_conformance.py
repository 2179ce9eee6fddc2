"""The suite of metadata stores finds each wrong one, and passes a right one of 30 lines."""

from __future__ import annotations

import pickle
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest
import trio

from tidelog.kernel.ids import new_id
from tidelog.kernel.metadata import MetadataDelta, MetadataImage, PersistentMap
from tidelog.kernel.seams.metadata import MetadataContext, MetadataStore
from tidelog.kernel.seams.metadata_base import MetadataStoreBase
from tidelog.kernel.seams.storage.directories import DataDirectories
from tidelog.kernel.tasks import BackgroundTasks
from tidelog.kernel.testing.metadata import MetadataConformance as Suite
from tidelog.kernel.testing.metadata import MetadataHarness


class OneFile(MetadataStoreBase):
    """A right store: the whole image in one file."""

    stored = frozenset({"quotas", "credentials", "acls", "features"})
    path: Path

    def open(self, directories: DataDirectories | None) -> None:
        assert directories is not None, "only for a storage with directories"
        self.path = directories.in_service[0].path / "image"
        if self.path.exists():
            self.image = pickle.loads(self.path.read_bytes())
        else:
            self.image = attrs.evolve(self.image, cluster_id=directories.cluster_id)

    async def write(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.path.write_bytes(pickle.dumps(image))


class WritesNothing(OneFile):
    async def write(self, delta: MetadataDelta, image: MetadataImage) -> None:
        pass


class WritesOneChangeLate(OneFile):
    """Loses the last change."""

    async def write(self, delta: MetadataDelta, image: MetadataImage) -> None:
        await super().write(delta, self.image)


class ResurrectsTopics(OneFile):
    """Adds to what it has stored, and removes nothing of it."""

    async def write(self, delta: MetadataDelta, image: MetadataImage) -> None:
        stored = pickle.loads(self.path.read_bytes()).topics if self.path.exists() else {}
        topics = PersistentMap({**stored, **image.topics})
        await super().write(delta, attrs.evolve(image, topics=topics))


class ForgetsConfigs(OneFile):
    async def write(self, delta: MetadataDelta, image: MetadataImage) -> None:
        await super().write(delta, attrs.evolve(image, configs=MetadataImage().configs))


class ForgetsQuotas(OneFile):
    """Has quotas, and stores none."""

    async def write(self, delta: MetadataDelta, image: MetadataImage) -> None:
        await super().write(delta, attrs.evolve(image, quotas=MetadataImage().quotas))


class ReturnsProducerIdsAgain(OneFile):
    async def write(self, delta: MetadataDelta, image: MetadataImage) -> None:
        await super().write(delta, attrs.evolve(image, next_producer_id=0))


class BecomesAnotherCluster(OneFile):
    def open(self, directories: DataDirectories | None) -> None:
        super().open(directories)
        self.image = attrs.evolve(self.image, cluster_id=new_id())


class DeliversTwice(OneFile):
    async def commit(self, delta: MetadataDelta) -> None:
        await super().commit(delta)
        self._context.deliver(delta)


class DeliversInParts(OneFile):
    """What belongs together is seen apart."""

    async def commit(self, delta: MetadataDelta) -> None:
        if delta.topics and delta.configs:
            await super().commit(MetadataDelta(topics=delta.topics))
            await super().commit(attrs.evolve(delta, topics={}))
        else:
            await super().commit(delta)


class Races(OneFile):
    """Makes each image of the one that was there before it waited."""

    async def commit(self, delta: MetadataDelta) -> None:
        image = delta.apply(self.image)
        await trio.lowlevel.checkpoint()
        await self.write(delta, image)
        self.image = image
        self._context.deliver(delta)


class Blocks(OneFile):
    async def commit(self, delta: MetadataDelta) -> None:
        time.sleep(0.3)  # noqa: ASYNC251 - that is the fault
        await super().commit(delta)


class IsLeftHalfway(OneFile):
    """Has written a change when its caller leaves, and does not have it."""

    async def commit(self, delta: MetadataDelta) -> None:
        image = delta.apply(self.image)
        await self.write(delta, image)
        await trio.lowlevel.checkpoint()
        self.image = image
        self._context.deliver(delta)


def plugin_of(store: type[OneFile]) -> ModuleType:
    class Backend:
        name = "one-file"
        durable = True

        def create(self, context: MetadataContext) -> MetadataStore:
            return store(context)

    plugin: Any = ModuleType("one_file")
    plugin.tidelog_metadata_stores = lambda: [Backend()]
    return plugin  # type: ignore[no-any-return]


class TestOneFile(Suite, plugin=plugin_of(OneFile)): ...


WRONG: dict[type[OneFile], Callable[[Any, MetadataHarness], Awaitable[None]]] = {
    WritesNothing: Suite.test_topics_are_put_replaced_and_removed,
    WritesOneChangeLate: Suite.test_put_topic_with_another_id_replaces_the_topic,
    ResurrectsTopics: Suite.test_topics_are_put_replaced_and_removed,
    ForgetsConfigs: Suite.test_broker_config_of_a_broker_and_of_all,
    ForgetsQuotas: Suite.test_commit_sets_and_removes_quotas,
    ReturnsProducerIdsAgain: Suite.test_next_producer_id_never_falls,
    BecomesAnotherCluster: Suite.test_cluster_id_stays,
    DeliversTwice: Suite.test_commit_of_several_kinds_is_one_change,
    DeliversInParts: Suite.test_commit_of_several_kinds_is_one_change,
    Blocks: Suite.test_no_change_blocks_the_event_loop,
    Races: Suite.test_changes_at_the_same_time_are_all_made,
    IsLeftHalfway: Suite.test_a_cancelled_change_is_made_or_not,
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_metadata_conformance_finds_a_wrong_store(wrong: type[OneFile], tmp_path: Path) -> None:
    plugin, tasks = plugin_of(wrong), BackgroundTasks()
    suite = type("Suite", (Suite,), {}, plugin=plugin)()
    async with tasks.running():
        harness = MetadataHarness(plugin, tmp_path, tasks, {})
        await harness.open()
        # What a test unpacks has as many items as it expects.
        with pytest.raises((AssertionError, ValueError)):
            await WRONG[wrong](suite, harness)
        await harness.close()

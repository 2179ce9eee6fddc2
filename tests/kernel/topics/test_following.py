"""Topics follow the image: after any changes, and after crashes in between, they are those that it has."""

from __future__ import annotations

import errno
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from uuid import uuid4

import attrs
import pytest

from tests.crash.core import Core
from tidelog.kernel.config import keys
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.log import Isolation
from tidelog.kernel.metadata import (
    NO_LEADER,
    ConfigOwner,
    ImageChange,
    MetadataDelta,
    TopicImage,
    topic_image,
)
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.testing import make_batch
from tidelog.plugins.metadata_kraft.store import KraftMetadata

STEPS = 40
Step = Callable[[Core], Awaitable[Sequence[object]]]


class Crash(BaseException):
    """The process ends between a commit and its application."""


async def crash() -> None:
    """Stand in for `MetadataPublisher.catch_up`."""
    raise Crash


def some_step(choose: random.Random) -> Step:
    """Return a change of topics or of the broker, which the controller may refuse."""
    name, other = choose.choice("abc"), choose.choice("abc")
    count, value = choose.randint(1, 3), str(choose.randint(1, 3))

    async def alter_broker(core: Core) -> Sequence[object]:
        await core.controller.alter_broker_config(
            None, lambda before: {**before, "log.flush.interval.messages": value}
        )
        return ()

    return choose.choice(
        [
            lambda core: core.controller.create_topics([TopicSpec(name, count), TopicSpec(other, 1)]),
            lambda core: core.controller.create_partitions([(name, count + 1)]),
            lambda core: core.controller.alter_topic_configs([(name, lambda _: {"flush.messages": value})]),
            lambda core: core.controller.delete_topics([name]),
            alter_broker,
        ]
    )


def check(core: Core) -> None:
    """Compare the open topics with the image, and their configuration with what is set."""
    image = core.metadata.image
    followed = {topic.name: (topic.topic_id, len(topic.partitions), topic.overrides) for topic in core.topics}
    wanted = {
        name: (topic.topic_id, len(topic.partitions), topic.config) for name, topic in image.topics.items()
    }
    assert followed == wanted
    default = image.config(ConfigOwner.of_broker(None)).get("log.flush.interval.messages")
    for topic in core.topics:
        text = topic.overrides.get("flush.messages", default)
        assert text is None or topic.config[keys.FLUSH_MESSAGES] == int(text)
        assert {partition.log.config.flush_messages for partition in topic.partitions} == {
            topic.config[keys.FLUSH_MESSAGES]
        }
    on_disk = {path.name for path in core.data.glob("?-*") if path.name.count("-") == 1}
    assert on_disk == {str(each.topic_partition) for each in core.topics.partitions()}


async def restarted(core: Core) -> None:
    """Start again after a crash."""
    core.abandon()
    await core.open()
    core.dynamic_config.load(core.metadata.image)
    await core.topics.refresh_configs()


@pytest.mark.parametrize("seed", range(4))
async def test_topics_are_those_of_the_image_after_any_changes_and_crashes(tmp_path: Path, seed: int) -> None:
    choose, core = random.Random(seed), Core(tmp_path)
    await core.open()
    crashes = 0
    for _ in range(STEPS):
        step = some_step(choose)
        if choose.random() < 0.25:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(core.publisher, "catch_up", crash)
                try:
                    await step(core)
                except Crash:
                    crashes += 1
            await restarted(core)
        else:
            await step(core)
        check(core)
    assert crashes
    await core.close()


async def test_follow_replaces_a_topic_of_the_same_name_and_opens_what_was_not_reserved(
    tmp_path: Path,
) -> None:
    core = Core(tmp_path)
    await core.open()
    old = await core.create("t", 2)
    old.partitions[0].log.append_as_leader(make_batch([b"old"]))
    # As another controller may commit it, which knows nothing of this broker's storage.
    await core.metadata.commit(MetadataDelta.of_topics(topic_image("t", uuid4(), 1)))
    await core.metadata.commit(MetadataDelta.of_topics(topic_image("u", uuid4(), 1)))
    grown = core.metadata.image.topics["u"]
    await core.metadata.commit(MetadataDelta.of_topics(attrs.evolve(grown, partitions=grown.partitions * 3)))
    await core.publisher.catch_up()
    check(core)
    new = core.topics.get("t")
    assert new is not old
    assert new.partitions[0].log.log_end_offset == 0
    with pytest.raises(BrokerError):
        old.partitions[0].log.read(0, 1000, Isolation.READ_UNCOMMITTED)
    await core.close()


async def test_follow_leads_in_the_epoch_of_a_log_that_the_store_had_no_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = Core(tmp_path)
    await core.open()
    topic = await core.create("t", 1)
    topic.partitions[0].log.append_as_leader(make_batch([b"old"]))
    core.abandon()

    async def refuse(self: KraftMetadata, delta: MetadataDelta) -> None:
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patched:
        patched.setattr(KraftMetadata, "commit", refuse)
        await core.open()
    (partition,) = core.topics.get("t").partitions
    image = core.metadata.image.topics["t"]
    epoch = partition.leader_epoch
    assert image.partitions[0].leader_epoch < epoch
    for leader_id in (NO_LEADER, 1):
        led = image.partitions[0]._replace(leader=leader_id)
        await core.topics.follow(change_to(core, attrs.evolve(image, partitions=(led,))))
        assert partition.leadership[:2] == (leader_id, epoch)
    await core.close()


def change_to(core: Core, topic: TopicImage) -> ImageChange:
    """A change of one topic."""
    before, delta = core.metadata.image, MetadataDelta.of_topics(topic)
    return ImageChange(before, delta, delta.apply(before))

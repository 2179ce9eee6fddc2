"""A broker warns of cleanup policies that nothing carries out."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest

from tidelog.kernel import Broker, configure
from tidelog.kernel.seams.controller import TopicSpec

NO_EFFECT = "which no installed plugin carries out: it has no effect"
NO_LOG_CLEANER = (
    "no installed plugin carries out cleanup policies: old records are never removed; take the plugin "
    "cleaner out of plugins.blocked, or install another log cleaner"
)


def running(settings: dict[str, str]) -> AbstractAsyncContextManager[Broker]:
    """A broker in memory, which needs no key of a plugin that may be blocked."""
    own = {"listeners": "PLAINTEXT://127.0.0.1:0", "storage": "memory"}
    return Broker(*configure({**own, **settings})).running()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if "carries out" in text]


async def test_check_default_logs_a_policy_that_no_plugin_offers(caplog: pytest.LogCaptureFixture) -> None:
    """Once, and not for each topic that has the default."""
    settings = {"log.cleanup.policy": "delete,compact", "plugins.blocked": "retention"}
    async with running(settings) as broker:
        await broker.topics.create(TopicSpec("flights", 1, config={"segment.ms": "5"}))
    assert warnings(caplog) == [f"log.cleanup.policy has delete, {NO_EFFECT}"]


async def test_check_default_logs_a_broker_without_a_log_cleaner(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"log.cleanup.policy": "delete,compact", "plugins.blocked": "cleaner"}
    async with running(settings) as broker:
        assert broker.log_cleaner is None
        assert [name for name in broker.tasks.statistics() if "cleanup" in name] == []
        await broker.topics.create(TopicSpec("flights", 1, config={"segment.ms": "5"}))
    assert warnings(caplog) == [NO_LOG_CLEANER]


@pytest.mark.parametrize(
    ("blocked", "at_start", "policies"),
    [("retention", [], ["delete"]), ("cleaner", [NO_LOG_CLEANER], ["compact", "delete"])],
)
async def test_follow_logs_the_policies_of_a_topic_that_nothing_carries_out(
    blocked: str, at_start: list[str], policies: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"plugins.blocked": blocked, "log.cleanup.policy": "compact"}
    async with running(settings) as broker:
        for name, config in (("trains", {"cleanup.policy": "compact,delete"}), ("flights", {})):
            await broker.topics.create(TopicSpec(name, 1, config=config))
        await broker.topics.alter_config("flights", lambda _: {"cleanup.policy": "compact,delete"})
    assert warnings(caplog) == at_start + [
        f"topic {topic}: cleanup.policy has {policy}, {NO_EFFECT}"
        for topic in ("trains", "flights")
        for policy in policies
    ]


async def test_nothing_is_logged_of_policies_that_are_carried_out(caplog: pytest.LogCaptureFixture) -> None:
    async with running({"log.cleanup.policy": "delete,compact"}) as broker:
        assert {"cleanup policy compact", "cleanup policy delete"} <= broker.tasks.statistics().keys()
        await broker.topics.create(TopicSpec("flights", 1, config={"cleanup.policy": "delete"}))
    assert warnings(caplog) == []


async def test_follow_logs_nothing_again_of_a_topic_that_gets_partitions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running({"plugins.blocked": "retention", "log.cleanup.policy": "compact"}) as broker:
        await broker.topics.create(TopicSpec("trains", 1, config={"cleanup.policy": "delete"}))
        await broker.topics.grow("trains", 2)
    assert warnings(caplog) == [f"topic trains: cleanup.policy has delete, {NO_EFFECT}"]

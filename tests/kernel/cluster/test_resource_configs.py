"""Configuration of groups as the image has it, with the broker's defaults of the moment."""

from __future__ import annotations

from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.coordinator.consumer_groups import keys


async def test_follow_takes_a_new_default_of_the_broker() -> None:
    of_group, of_broker = keys.GROUP_ASSIGNMENT_INTERVAL_MS, keys.ASSIGNMENT_INTERVAL_MS
    async with running_broker() as broker:
        alter = broker.controller.alter_resource_configs
        assert await alter("group", [("g", lambda _: {"consumer.session.timeout.ms": "50000"})]) == [None]
        before = broker.resource_configs.find("group", "g")
        assert before is not None
        assert before[of_group] == of_broker.default
        await broker.controller.alter_broker_config(None, lambda _: {of_broker.name: "77"})
        after = broker.resource_configs.find("group", "g")
        assert after is not None
        assert (after[of_group], after[keys.GROUP_SESSION_TIMEOUT_MS]) == (77, 50_000)

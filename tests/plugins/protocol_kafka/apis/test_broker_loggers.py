"""The levels of loggers by DescribeConfigs and IncrementalAlterConfigs (KIP-412)."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tidelog.kernel.broker import Broker
from tidelog.plugins.protocol_kafka.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from tidelog.plugins.protocol_kafka.messages.api import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
)
from tidelog.plugins.protocol_kafka.messages.describe_configs import (
    BROKER_LOGGER_RESOURCE,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

from .client import Client

TOPICS = "tidelog.kernel.topics.topics"


@pytest.fixture(autouse=True)
def levels_as_before() -> Iterator[None]:
    """Restore what a test changes for the whole process."""
    loggers = [logging.root, logging.getLogger(TOPICS), logging.getLogger("tidelog")]
    levels = [logger.level for logger in loggers]
    logging.root.setLevel(logging.WARNING)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


async def described(client: Client, name: str = "1", keys: list[str] | None = None) -> DescribeConfigsResult:
    """The answer about the loggers of one broker."""
    resource = DescribeConfigsResource(
        resource_type=BROKER_LOGGER_RESOURCE, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = (await client.ask(DESCRIBE_CONFIGS, 4, request)).results
    assert isinstance(result, DescribeConfigsResult)
    return result


async def levels(client: Client) -> dict[str, str | None]:
    """The level of each logger."""
    return {entry.name: entry.value for entry in (await described(client)).configs}


async def alter(
    client: Client,
    *changes: tuple[str, int, str | None],
    name: str = "1",
    validate_only: bool = False,
) -> tuple[int, str | None]:
    """The error of a change of levels, and its text."""
    configs = [
        IncrementalAlterableConfig(name=logger, config_operation=operation, value=value)
        for logger, operation, value in changes
    ]
    resource = IncrementalAlterConfigsResource(
        resource_type=BROKER_LOGGER_RESOURCE, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (answer,) = (await client.ask(INCREMENTAL_ALTER_CONFIGS, 1, request)).responses
    return answer.error_code, answer.error_message


async def test_describe_configs_has_the_level_in_force_of_each_logger(client: Client) -> None:
    logging.getLogger("tidelog").setLevel(logging.INFO)
    found = await described(client, keys=["root", TOPICS])
    assert found.error_code == 0
    assert [(entry.name, entry.value, entry.config_source, entry.read_only) for entry in found.configs] == [
        ("root", "WARN", 6, False),
        (TOPICS, "INFO", 6, False),
    ]
    assert not any(entry.synonyms for entry in found.configs)


@pytest.mark.parametrize(
    ("level", "number"),
    [("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)],
)
async def test_incremental_alter_configs_sets_and_resets_a_level(
    client: Client, level: str, number: int
) -> None:
    assert await alter(client, (TOPICS, SET, level), validate_only=True) == (0, None)
    assert (await levels(client))[TOPICS] == "WARN"
    assert await alter(client, (TOPICS, SET, level)) == (0, None)
    assert logging.getLogger(TOPICS).level == number
    assert (await levels(client))[TOPICS] == level
    assert (await levels(client))["root"] == "WARN"
    assert await alter(client, (TOPICS, DELETE, None)) == (0, None)
    assert logging.getLogger(TOPICS).level == logging.NOTSET
    assert (await levels(client))[TOPICS] == "WARN"


async def test_incremental_alter_configs_of_root_concerns_loggers_without_a_level(client: Client) -> None:
    assert await alter(client, ("root", SET, "DEBUG"), ("tidelog.kernel.broker", SET, "ERROR")) == (0, None)
    found = await levels(client)
    logging.getLogger("tidelog.kernel.broker").setLevel(logging.NOTSET)
    assert (found["root"], found[TOPICS], found["tidelog.kernel.broker"]) == ("DEBUG", "DEBUG", "ERROR")


REFUSED: dict[str, tuple[tuple[tuple[str, int, str | None], ...], str, int, str]] = {
    "unknown logger": ((("no.such", SET, "INFO"),), "1", 40, "Logger no.such does not exist!"),
    "unknown level": (
        ((TOPICS, SET, "OFF"),),
        "1",
        40,
        f"Cannot set the log level of {TOPICS} to OFF as it is not a supported log level. "
        "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
    ),
    "lower case": (((TOPICS, SET, "info"),), "1", 40, "is not a supported log level"),
    "one of two": (((TOPICS, SET, "INFO"), ("no.such", SET, "INFO")), "1", 40, "does not exist"),
    "append": (((TOPICS, APPEND, "INFO"),), "1", 42, "APPEND operation is not allowed"),
    "root": ((("root", DELETE, None),), "1", 42, "Removing the log level of the root logger is not allowed"),
    "null": (((TOPICS, SET, None),), "1", 42, "null value"),
    "twice": (((TOPICS, SET, "INFO"), (TOPICS, SET, "WARN")), "1", 42, "more than once"),
    "another broker": (((TOPICS, SET, "INFO"),), "2", 42, "Unexpected broker id, expected 1"),
    "all brokers": (((TOPICS, SET, "INFO"),), "", 42, "must not be empty"),
}


@pytest.mark.parametrize(("changes", "name", "code", "text"), REFUSED.values(), ids=REFUSED)
async def test_incremental_alter_configs_of_loggers_that_is_refused_changes_nothing(
    client: Client, changes: tuple[tuple[str, int, str | None], ...], name: str, code: int, text: str
) -> None:
    before = await levels(client)
    error, message = await alter(client, *changes, name=name)
    assert error == code
    assert text in str(message)
    assert await levels(client) == before


@pytest.mark.parametrize("name", ["", "2", "x"])
async def test_describe_configs_of_the_loggers_of_another_broker(client: Client, name: str) -> None:
    assert (await described(client, name)).error_code == ErrorCode.INVALID_REQUEST


async def test_alter_configs_knows_no_loggers(client: Client, broker: Broker) -> None:
    resource = AlterConfigsResource(resource_type=BROKER_LOGGER_RESOURCE, resource_name="1", configs=[])
    request = AlterConfigsRequest(resources=[resource], validate_only=False)
    (answer,) = (await client.ask(ALTER_CONFIGS, 2, request)).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST

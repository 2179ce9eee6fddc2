"""What errors are called in plain words, where no broker is needed to see it."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from tidelog.plugins.client.errors import BrokerClosed, ErrorResponse
from tidelog.plugins.client_commands.options import raise_all
from tidelog.plugins.client_commands.topics.failures import (
    NAME_RULE,
    alteration_failed,
    creation_failed,
    deletion_failed,
    not_found,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

ILLEGAL = ErrorCode.INVALID_TOPIC_EXCEPTION


@for_each("name", ["", ".", "..", "a/b", "a b", "ö", "a\n", "x" * 250])
def test_creation_failed_explains_the_naming_rule_for_an_illegal_name(name: str) -> None:
    said = str(creation_failed(name, ErrorResponse(ILLEGAL, "x", "no good")))
    assert said == f"{name!r} is no topic name. {NAME_RULE}"


@pytest.mark.parametrize("name", ["a", "...", "a.b", "A_0-z", "x" * 249])
def test_creation_failed_gives_the_reason_of_the_broker_for_a_legal_name(name: str) -> None:
    said = str(creation_failed(name, ErrorResponse(ILLEGAL, "x", "it collides with another")))
    assert said == f"Topic {name!r} cannot be created: it collides with another."


@pytest.mark.parametrize(
    ("detail", "end"),
    [("too many?", ": too many?"), (None, ": INVALID_PARTITIONS."), ("", ": INVALID_PARTITIONS.")],
)
def test_creation_failed_ends_the_message_of_the_broker_as_a_sentence(detail: str | None, end: str) -> None:
    said = str(creation_failed("a", ErrorResponse(ErrorCode.INVALID_PARTITIONS, "x", detail)))
    assert said.endswith(end)


def test_alteration_failed_names_the_option_for_too_few_partitions() -> None:
    said = str(alteration_failed("a", ErrorResponse(ErrorCode.INVALID_PARTITIONS, "x", "it has 3"), []))
    assert said == "Topic 'a' cannot be changed: it has 3. --partitions has to be more than now."


def test_deletion_failed_reports_that_the_outcome_is_unknown() -> None:
    said = str(deletion_failed("a", BrokerClosed("b:1", "DeleteTopics v6", "reset"), []))
    assert said.startswith("Topic 'a' was perhaps not deleted: the connection to b:1 ended")


LIST = "`tidelog topics list` lists those there are."


@pytest.mark.parametrize(
    ("existing", "hint"), [(["orders"], "Did you mean 'orders'?"), (["payments"], LIST), ([], LIST)]
)
def test_not_found_suggests_a_topic_with_a_similar_name_or_the_list(existing: list[str], hint: str) -> None:
    said = not_found("ordres", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, existing)
    assert str(said) == f"There is no topic 'ordres'. {hint}"


def test_raise_all_raises_one_failure_alone_and_several_as_a_group() -> None:
    failures = [not_found(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, []) for name in ("a", "b")]
    raise_all([], "topics")
    with pytest.raises(type(failures[0]), match="'a' cannot be described: TOPIC_AUTHORIZATION_FAILED"):
        raise_all(failures[:1], "topics")
    with pytest.raises(ExceptionGroup) as raised:
        raise_all(failures, "topics")
    assert raised.value.exceptions == tuple(failures)

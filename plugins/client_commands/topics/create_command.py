"""`tidelog topics create`."""

from __future__ import annotations

from uuid import UUID

import attrs
import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient, CreatedTopic, NewTopic
from tidelog.plugins.client.cluster import TopicMetadata
from tidelog.plugins.client.errors import BrokerClosed, ClientError, ErrorResponse, RequestTimedOut
from tidelog.plugins.client.operations.topics import BROKER_DEFAULT
from tidelog.plugins.client_commands.options import json_option, key_values, with_broker
from tidelog.plugins.client_commands.output import kafka_uuid
from tidelog.plugins.client_commands.topics.failures import creation_failed, in_doubt
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

_EPILOG = """\b
Examples:
  tidelog topics create orders
  tidelog topics create orders --partitions 3 --config max.message.bytes=2000000
  tidelog topics create orders --if-not-exists
  tidelog topics create orders --partitions 3 --validate-only
"""


@click.command("create", epilog=_EPILOG, short_help="Create a topic.")
@click.argument("name")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Number of partitions. [default: the broker's]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Brokers that hold each partition. [default: the broker's]",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=key_values,
    help="Set a topic key; repeatable.",
)
@click.option("--if-not-exists", is_flag=True, help="Leave a topic that exists as it is, without an error.")
@click.option("--validate-only", is_flag=True, help="Only check whether the topic could be created.")
@json_option
@with_broker
def command(
    client: BlockingClient,
    *,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: dict[str, str],
    if_not_exists: bool,
    validate_only: bool,
    as_json: bool,
) -> None:
    """Create the topic NAME."""
    new = NewTopic(name, partitions or BROKER_DEFAULT, replication_factor or BROKER_DEFAULT, configs)
    outcome = _outcome_of(client, new, validate_only)
    if isinstance(outcome, CreatedTopic):
        verdict = "could be created" if validate_only else "created"
        _show(_Outcome.of_created(outcome, verdict), as_json=as_json)
    elif if_not_exists and _exists_already(outcome):
        found = client.metadata([name]).topics.get(name)
        _show(_Outcome.of_existing(name, found), as_json=as_json)
    elif isinstance(outcome, ErrorResponse):
        raise creation_failed(name, outcome) from outcome
    else:
        raise outcome


def _outcome_of(client: BlockingClient, new: NewTopic, validate_only: bool) -> CreatedTopic | ClientError:
    try:
        return client.create_topics([new], validate_only=validate_only)[new.name]
    except (BrokerClosed, RequestTimedOut) as error:
        if validate_only:
            raise
        raise in_doubt(f"topic {new.name!r} was created", error) from error


@attrs.frozen
class _Outcome:
    """Outcome to print; None for values that the broker does not send."""

    verdict: str
    name: str
    topic_id: UUID | None
    partitions: int | None
    replication_factor: int | None

    @classmethod
    def of_created(cls, topic: CreatedTopic, verdict: str) -> _Outcome:
        sent = (topic.partitions, topic.replication_factor)
        counts = [None if count == BROKER_DEFAULT else count for count in sent]
        return cls(verdict, topic.name, topic.topic_id if topic.topic_id.int else None, *counts)

    @classmethod
    def of_existing(cls, name: str, topic: TopicMetadata | None) -> _Outcome:
        if topic is None:  # it was deleted meanwhile
            return cls("exists", name, None, None, None)
        return cls("exists", name, topic.topic_id, len(topic.partitions), topic.replication_factor)


def _exists_already(outcome: ClientError) -> bool:
    return isinstance(outcome, ErrorResponse) and outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS


def _show(outcome: _Outcome, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "name": outcome.name,
                "id": outcome.topic_id and kafka_uuid(outcome.topic_id),
                "partitions": outcome.partitions,
                "replication_factor": outcome.replication_factor,
                "created": outcome.verdict == "created",
            }
        )
        return
    count = outcome.partitions
    size = "" if count is None else f" with {count} partition{'s' * (count != 1)}"
    texts = {
        "created": f"Created topic {outcome.name}{size}.",
        "could be created": f"Topic {outcome.name} could be created{size}; it was not.",
        "exists": f"Topic {outcome.name} exists already{size}; it stays as it is.",
    }
    click.echo(texts[outcome.verdict])

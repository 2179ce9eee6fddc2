"""What the commands `tidelog configs` are about, as their arguments name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec

import click

from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.configs import ConfigResource
from tidelog.plugins.client_commands.options import CommandFailed
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

P = ParamSpec("P")

KINDS: Final = ("topic", "broker", "cluster", "group", "client-metrics")
_CLUSTER: Final = "cluster"


def resource_arguments(command: Callable[P, None]) -> Callable[P, None]:
    """Add the arguments KIND and NAME."""
    with_name = click.argument("name", required=False)(command)
    return click.argument("kind", type=click.Choice(KINDS), metavar="KIND")(with_name)


def resource_of(kind: str, name: str | None) -> ConfigResource:
    """Return what KIND and NAME stand for.

    Raises:
        UsageError: the name is missing, or there is one for the cluster, or a broker's is no node id.
    """
    match kind:
        case "cluster":
            if name is not None:
                raise click.UsageError("The configuration of all brokers has no name: `cluster` alone.")
            return ConfigResource("broker", "")
        case "broker":
            if name is None or not name.isdecimal():
                raise click.UsageError("A broker is named by its node id, such as `broker 1`.")
            return ConfigResource("broker", name)
        case "topic" | "group" | "client-metrics":
            if not name:
                raise click.UsageError(f"Which {kind}? Its name follows, such as `{kind} orders`.")
            return ConfigResource(kind, name)
        case _:
            raise AssertionError(kind)


def refused(resource: ConfigResource, error: ClientError) -> Exception:
    """Return the error for a resource whose configuration cannot be read or changed."""
    if not isinstance(error, ErrorResponse):
        return error
    what = str(resource)[:1].upper() + str(resource)[1:]
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return CommandFailed(
            f"There is no topic {resource.name!r}. `tidelog topics list` lists those there are."
        )
    detail = (error.detail or error.code.name).strip().rstrip(".")
    return CommandFailed(f"{what} cannot have this configuration: {detail}.")

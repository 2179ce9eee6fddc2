"""Options by which the commands `tidelog acls` name entries, and how they show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, ParamSpec

import attrs
import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.acls import CLUSTER_NAME, OPERATIONS, AclBinding
from tidelog.plugins.client_commands.options import CommandFailed
from tidelog.plugins.client_commands.output import show_table
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

P = ParamSpec("P")

_NAMED: Final = ("topic", "group", "transactional-id", "delegation-token", "user")


@attrs.frozen
class NamedResource:
    """A resource as options name it."""

    kind: str
    name: str


def entry_options(command: Callable[P, None]) -> Callable[P, None]:
    """Add the options that name resources, principals and operations."""
    for kind in reversed(_NAMED):
        command = click.option(
            f"--{kind}",
            multiple=True,
            metavar="NAME",
            help=f"A {kind.replace('-', ' ')}, `*` for any; repeatable.",
        )(command)
    for option in (
        click.option("--cluster", is_flag=True, help="The cluster."),
        click.option("--prefix", is_flag=True, help="The names are how names begin."),
        click.option("--host", metavar="ADDRESS", help="The address of clients, `*` for any."),
        click.option(
            "--operation",
            "operations",
            multiple=True,
            type=click.Choice(OPERATIONS),
            metavar="OPERATION",
            help=f"One of {', '.join(OPERATIONS)}; repeatable.",
        ),
        click.option(
            "--principal",
            "principals",
            multiple=True,
            metavar="TYPE:NAME",
            help="Such as User:alice, `User:*` for any user; repeatable.",
        ),
    ):
        command = option(command)
    return command


def named_resources(*, cluster: bool, **names: tuple[str, ...]) -> list[NamedResource]:
    """Return the resources that options name, by the names of the options with underscores."""
    found = [NamedResource(kind, name) for kind in _NAMED for name in names[kind.replace("-", "_")]]
    return [*found, NamedResource("cluster", CLUSTER_NAME)] if cluster else found


def show_entries(entries: Iterable[AclBinding], *, as_json: bool, nothing: str) -> None:
    """Print entries as a table or as JSON, by resource and principal; `nothing` is said if there are none."""
    shown = sorted(entries, key=lambda each: (each.resource, each.name, each.pattern, str(each)))
    if as_json:
        print_json([attrs.asdict(each) for each in shown])
    elif shown:
        rows = [
            (
                each.resource,
                each.name,
                each.pattern,
                each.principal,
                each.host,
                each.operation,
                each.permission,
            )
            for each in shown
        ]
        show_table(("RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"), rows)
    else:
        click.echo(nothing, err=True)


def refused(error: ClientError) -> Exception:
    """Return the error for entries that cannot be listed or changed."""
    if not isinstance(error, ErrorResponse):
        return error
    if error.code is ErrorCode.SECURITY_DISABLED:
        return CommandFailed(
            "The broker has no authorizer that goes by access control entries: set authorizer.class.name."
        )
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return CommandFailed(
            "This principal may not see or change access control entries: it needs DESCRIBE or ALTER on the "
            "cluster, or to be one of super.users."
        )
    detail = (error.detail or error.code.name).strip().rstrip(".")
    return CommandFailed(f"An access control entry was refused: {detail}.")

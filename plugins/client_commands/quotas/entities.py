"""Whom the commands `tidelog quotas` are about, as their options name it, and how quotas are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, ParamSpec

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.quotas import QuotaEntity, alter_quotas, describe_quotas
from tidelog.plugins.client_commands.options import CommandFailed
from tidelog.plugins.client_commands.output import show_table
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

P = ParamSpec("P")

_PARTS: Final = {"user": "user", "client-id": "client id", "ip": "address"}
Quotas = Mapping[QuotaEntity, Mapping[str, float]]


def entity_options(command: Callable[P, None]) -> Callable[P, None]:
    """Add the options that name an entity, each with one for the default."""
    for part, what in reversed(_PARTS.items()):
        command = click.option(
            f"--default-{part}", is_flag=True, help=f"Each {what} that has no quota of its own."
        )(command)
        command = click.option(f"--{part}", metavar="NAME", help=f"This {what}.")(command)
    return command


def entity_of(**given: str | bool | None) -> QuotaEntity:
    """Return the entity that the options name, by their names with underscores.

    Raises:
        UsageError: a part is named twice, or there is an address with another part.
    """
    names: dict[str, str | None] = {}
    for part in ("user", "client_id", "ip"):
        name, is_default = given[part], given[f"default_{part}"]
        option = part.replace("_", "-")
        if name is not None and is_default:
            raise click.UsageError(f"Say --{option} or --default-{option}, not both.")
        if name == "":
            raise click.UsageError(f"--{option} has no name.")
        names[part] = QuotaEntity.DEFAULT if is_default else None if name is None else str(name)
    if names["ip"] is not None and (names["user"] or names["client_id"]):
        raise click.UsageError("Quotas of addresses are for all of their users and client ids: --ip alone.")
    return QuotaEntity(**names)


def named_entity(**given: str | bool | None) -> QuotaEntity:
    """Return the entity that the options name.

    Raises:
        UsageError: there is none, or as `entity_of`.
    """
    entity = entity_of(**given)
    if not entity.parts():
        raise click.UsageError("Say for whom: --user, --client-id, --ip, or such as --default-user.")
    return entity


def quotas_of(client: BlockingClient, entity: QuotaEntity, *, strict: bool) -> Quotas:
    """Return the quotas of entities with the parts of `entity`, with `strict` those of itself alone.

    Raises:
        CommandFailed: they may not be seen.
    """
    try:
        return client.run(describe_quotas, entity, strict=strict)
    except ErrorResponse as error:
        raise refused(error) from error


def change(client: BlockingClient, entity: QuotaEntity, quotas: Mapping[str, float | None]) -> None:
    """Set quotas of an entity by key, None removes one.

    Raises:
        CommandFailed: the broker refuses.
    """
    for outcome in client.run(alter_quotas, {entity: quotas}).values():
        if isinstance(outcome, ClientError):
            raise refused(outcome) from outcome


def show(quotas: Quotas, *, as_json: bool) -> None:
    """Print quotas by entity, as a table or as JSON, in which null is a default of all names."""
    found = sorted(quotas.items(), key=lambda each: str(each[0]))
    if as_json:
        print_json([{"entity": entity.parts(), "quotas": dict(sorted(own.items()))} for entity, own in found])
        return
    rows = [(str(entity), key, _number(value)) for entity, own in found for key, value in sorted(own.items())]
    if rows:
        show_table(("FOR", "QUOTA", "VALUE"), rows, numbers=("VALUE",))
    else:
        click.echo("There are no such quotas.", err=True)


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)


def refused(error: ClientError) -> Exception:
    """Return the error for quotas that cannot be listed or changed."""
    if not isinstance(error, ErrorResponse):
        return error
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return CommandFailed(
            "This principal may not see or change quotas: it needs DESCRIBE_CONFIGS or ALTER_CONFIGS on the "
            "cluster, or to be one of super.users."
        )
    detail = (error.detail or error.code.name).strip().rstrip(".")
    return CommandFailed(f"A quota was refused: {detail}.")

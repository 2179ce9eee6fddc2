"""`tidelog groups describe`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tidelog.kernel.cli.tables import print_json
from tidelog.plugins.client import BlockingClient
from tidelog.plugins.client.operations.groups import GroupDescription, GroupMember
from tidelog.plugins.client_commands.groups.failures import described
from tidelog.plugins.client_commands.groups.lag import PartitionLag, lag_of
from tidelog.plugins.client_commands.options import json_option, with_broker
from tidelog.plugins.client_commands.output import show_table

_EPILOG = """\b
Examples:
  tidelog groups describe shop
  tidelog groups describe shop billing --members
  tidelog groups describe shop --json
"""
_OFFSETS = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST")
_MEMBERS = ("MEMBER", "CLIENT", "HOST", "INSTANCE", "PARTITIONS")
_NUMBERS = ("PARTITION", "COMMITTED", "END", "LAG")


@click.command("describe", epilog=_EPILOG, short_help="Describe groups: members, offsets, lag.")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@click.option("--members", "show_members", is_flag=True, help="Also each member with its partitions.")
@json_option
@with_broker
def command(client: BlockingClient, *, names: tuple[str, ...], show_members: bool, as_json: bool) -> None:
    """Describe the groups GROUP...: state, committed offsets, and how far they are behind.

    COMMITTED is the next offset that the group reads, END the one that the next record gets, and LAG is the
    difference: there are at most so many records, and fewer where compaction or transactions leave gaps.
    """
    groups = [described(client, name) for name in dict.fromkeys(names)]
    lags = [lag_of(client, group) for group in groups]
    if as_json:
        print_json([_as_json(group, lag) for group, lag in zip(groups, lags, strict=True)])
        return
    for index, (group, lag) in enumerate(zip(groups, lags, strict=True)):
        if index:
            click.echo()
        _show(group, lag, show_members=show_members)


def _total(lag: Sequence[PartitionLag]) -> int:
    return sum(each.lag or 0 for each in lag)


def _show(group: GroupDescription, lag: Sequence[PartitionLag], *, show_members: bool) -> None:
    count = len(group.members)
    click.secho(group.group_id, bold=True, nl=False)
    assignor = f", assignor {group.assignor}" if group.assignor else ""
    click.echo(
        f"  {group.type}, {group.state}, {count} member{'s' * (count != 1)}{assignor}, "
        f"coordinator {group.coordinator}, lag {_total(lag)}"
    )
    if lag:
        show_table(_OFFSETS, [_row(each) for each in lag], numbers=_NUMBERS)
    else:
        click.echo("It has no offsets.")
    if show_members and group.members:
        show_table(_MEMBERS, [_member_row(member) for member in group.members])


def _row(each: PartitionLag) -> tuple[str, ...]:
    member = each.member
    numbers = ("-" if number is None else str(number) for number in (each.committed, each.end, each.lag))
    owner = (member.member_id, member.host) if member else ("-", "-")
    return (each.partition.topic, str(each.partition.partition), *numbers, *owner)


def _member_row(member: GroupMember) -> tuple[str, ...]:
    partitions = ", ".join(map(str, member.partitions or ())) or "-"
    return (member.member_id, member.client_id, member.host, member.instance_id or "-", partitions)


def _as_json(group: GroupDescription, lag: Sequence[PartitionLag]) -> dict[str, object]:
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "lag": _total(lag),
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
                "instance_id": member.instance_id,
                "partitions": None
                if member.partitions is None
                else [{"topic": place.topic, "partition": place.partition} for place in member.partitions],
            }
            for member in group.members
        ],
        "offsets": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "committed": each.committed,
                "end": each.end,
                "lag": each.lag,
                "member_id": each.member.member_id if each.member else None,
            }
            for each in lag
        ],
    }

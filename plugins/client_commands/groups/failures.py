"""Messages of the commands for errors about groups, each with the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.config.types import nearest_name
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.groups import describe_groups, list_groups
from tidelog.plugins.client_commands.options import CommandFailed
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.plugins.client import BlockingClient
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.operations.groups import GroupDescription


def described(client: BlockingClient, group: str) -> GroupDescription:
    """Return the description of a group.

    Raises:
        CommandFailed: there is none of that name.
        ClientError: the broker did not answer, or refuses.
    """
    found = client.run(describe_groups, [group])[group]
    if isinstance(found, ErrorResponse):
        raise group_failed(client, group, found) from found
    if isinstance(found, Exception):
        raise found
    return found


def group_failed(client: BlockingClient, group: str, error: ClientError) -> CommandFailed | ClientError:
    """Return the error for a group that cannot be described or changed."""
    if not isinstance(error, ErrorResponse):
        return error
    match error.code:
        case ErrorCode.GROUP_ID_NOT_FOUND:
            near = nearest_name(group, [each.group_id for each in client.run(list_groups)])
            hint = f"Did you mean {near!r}?" if near else "`tidelog groups list` lists those there are."
            return CommandFailed(f"There is no group {group!r}. {hint}")
        case ErrorCode.NON_EMPTY_GROUP:
            return CommandFailed(
                f"Group {group!r} has members: stop its consumers first. `tidelog groups describe {group} "
                "--members` lists them."
            )
        case _:
            return CommandFailed(f"Group {group!r}: {error.detail or error.code.name}.")


def inactive(group: GroupDescription) -> None:
    """Check that a group has no members, which would continue from where they are.

    Raises:
        CommandFailed: it has some.
    """
    if group.members:
        clients = ", ".join(sorted({member.client_id or "-" for member in group.members}))
        count = len(group.members)
        raise CommandFailed(
            f"Group {group.group_id!r} has {count} member{'s' * (count > 1)} ({clients}): stop "
            f"{'them' if count > 1 else 'it'} first, then its offsets can be changed."
        )

"""A rebalance of a classic group that a test asks for."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.coordination.groups import GroupProtocol, JoinRequest, LeavingMember

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.groups import GroupService
    from tidelog.plugins.client.operations.groups import GroupDescription

_INSTANCE: Final = "tidelog-rebalance"
_STABLE: Final = "Stable"
_TIMEOUT_MS: Final = 10_000
"""In the range of session timeouts that a broker accepts; the member leaves at once."""


async def rebalance_classic(groups: GroupService, group: GroupDescription) -> None:
    """Let a member come and go, so that all others have to join again; called in the broker's thread.

    A group that rebalances already just continues.
    """
    if group.state != _STABLE:
        return
    described = groups.describe(group.group_id)
    request = JoinRequest(
        group.group_id,
        "",
        described.protocol_type,
        [GroupProtocol(described.protocol_name, described.members[0].metadata)],
        _TIMEOUT_MS,
        _TIMEOUT_MS,
        group_instance_id=_INSTANCE,
    )
    joined = groups.join(request)
    await groups.leave(group.group_id, [LeavingMember("", _INSTANCE)])
    if isinstance(joined, Awaitable):
        # The others have not joined yet: it is refused, since it has left.
        with suppress(BrokerError):
            await cast("Awaitable[object]", joined)

"""Settings of classic groups, from the configuration."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from tidelog.plugins.coordinator import keys
from tidelog.plugins.schema.types import MAX_STRING_BYTES

if TYPE_CHECKING:
    from tidelog.kernel.config import Config


@attrs.frozen
class GroupSettings:
    """Configuration of classic groups; times in milliseconds.

    `new_member_id` returns a unique id with the given prefix.
    """

    new_member_id: Callable[[str], str]
    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1


def group_settings(config: Config) -> GroupSettings:
    """Return the settings that the configuration gives."""
    return GroupSettings(
        new_member_id,
        initial_rebalance_delay_ms=max(config[keys.GROUP_INITIAL_REBALANCE_DELAY_MS], 0),
        min_session_timeout_ms=config[keys.GROUP_MIN_SESSION_TIMEOUT_MS],
        max_session_timeout_ms=config[keys.GROUP_MAX_SESSION_TIMEOUT_MS],
        max_size=config[keys.GROUP_MAX_SIZE],
    )


def new_member_id(prefix: str) -> str:
    """Return a unique id that begins with a client id or an instance id, cut to the bound of a string."""
    suffix = f"-{uuid.uuid4()}"
    encoded = prefix.encode()
    if len(encoded) + len(suffix) > MAX_STRING_BYTES:
        prefix = encoded[: MAX_STRING_BYTES - len(suffix)].decode(errors="ignore")
    return prefix + suffix

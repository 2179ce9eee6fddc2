"""Settings of a consumer connector: those of a consumer, and Kafka 0.8's of its high-level consumer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from tidelog.plugins.client.consumer.settings import ConsumerOptions, ConsumerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

CoordinationKind: TypeAlias = Literal["broker", "zookeeper"]
OffsetsStorage: TypeAlias = Literal["zookeeper", "kafka"]

_GROUP_ID: Final = re.compile(r"[a-zA-Z0-9._-]+")


class ConnectorOptions(ConsumerOptions, total=False):
    """Keyword arguments of a connector; `ConnectorSettings` has what each means and its default."""

    coordination: CoordinationKind
    consumer_timeout_ms: float | None


def _check_positive(_settings: Any, attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and value < 0:
        raise ValueError(f"{attribute.name} is {value}, and has to be at least 0")


@attrs.frozen(kw_only=True)
class ConnectorSettings(ConsumerSettings):
    """Settings of a connector; `max_poll_records` is how many records of a stream are decoded at once.

    Attributes:
        coordination: how the members divide the partitions: by the group's coordinator among the brokers, or
            by themselves through ZooKeeper, as consumers of Kafka 0.8 do
        consumer_timeout_ms: an iteration over a stream ends after so long without a record; None: it waits
    """

    coordination: CoordinationKind = attrs.field(
        default="broker", validator=attrs.validators.in_(("broker",))
    )
    consumer_timeout_ms: float | None = attrs.field(default=None, validator=_check_positive)

    def __attrs_post_init__(self) -> None:
        if not self.group_id or (self.coordination == "zookeeper" and not _is_name(self.group_id)):
            raise ValueError(f"group_id is {self.group_id!r}, and has to be the name of a group")

    @property
    def group(self) -> str:
        """Return the group, which a connector always has."""
        return self.group_id or ""

    @property
    def consumer_timeout_s(self) -> float | None:
        """Return `consumer_timeout_ms` in seconds."""
        return None if self.consumer_timeout_ms is None else self.consumer_timeout_ms / 1000

    def consumer(self) -> ConsumerSettings:
        """Return the settings of the consumer under the connector, which commits by itself."""
        is_member = self.coordination == "broker"
        changes: Mapping[str, Any] = {} if is_member else {"group_id": None}
        return attrs.evolve(self, enable_auto_commit=False, **changes)


def _is_name(group_id: str) -> bool:
    return _GROUP_ID.fullmatch(group_id) is not None and group_id not in (".", "..")

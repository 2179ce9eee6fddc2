"""Settings of a consumer connector: those of a consumer, and Kafka 0.8's of its high-level consumer."""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeAlias

import attrs

from tidelog.plugins.client.consumer.settings import ConsumerOptions, ConsumerSettings
from tidelog.plugins.client.zookeeper_ensemble import ZooKeeperEnsemble

CoordinationKind: TypeAlias = Literal["broker", "zookeeper"]
OffsetsStorage: TypeAlias = Literal["zookeeper", "kafka"]

_GROUP_ID: Final = re.compile(r"[a-zA-Z0-9._-]+")


class ConnectorOptions(ConsumerOptions, total=False):
    """Keyword arguments of a connector; `ConnectorSettings` has what each means and its default."""

    coordination: CoordinationKind
    zookeeper: ZooKeeperEnsemble | str | None
    consumer_id: str | None
    consumer_timeout_ms: float | None
    offsets_storage: OffsetsStorage
    dual_commit_enabled: bool | None
    rebalance_backoff_ms: float
    rebalance_max_retries: int


def _ensemble(named: ZooKeeperEnsemble | str | None) -> ZooKeeperEnsemble | None:
    return ZooKeeperEnsemble(named) if isinstance(named, str) else named


def _check_positive(_settings: Any, attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and value < 0:
        raise ValueError(f"{attribute.name} is {value}, and has to be at least 0")


@attrs.frozen(kw_only=True)
class ConnectorSettings(ConsumerSettings):
    """Settings of a connector; `max_poll_records` is how many records of a stream are decoded at once.

    Attributes:
        coordination: how the members divide the partitions: by the group's coordinator among the brokers, or
            by themselves through ZooKeeper, as consumers of Kafka 0.8 do
        zookeeper: the ensemble for that, None for the one that the bootstrap servers name
        consumer_id: the member's name in ZooKeeper after that of the group, None for a new one
        consumer_timeout_ms: an iteration over a stream ends after so long without a record; None: it waits
        offsets_storage: where offsets are of a group that coordinates itself through ZooKeeper: there, or
            with `kafka` at the brokers
        dual_commit_enabled: with `kafka` they are committed to ZooKeeper as well, and the larger of two
            counts, so that a group moves them member by member; None: they are
        rebalance_backoff_ms: pause before the registries are read again, when a partition has an owner still
        rebalance_max_retries: after so many attempts in a row it is logged; the member keeps trying
    """

    coordination: CoordinationKind = attrs.field(
        default="broker", validator=attrs.validators.in_(("broker", "zookeeper"))
    )
    zookeeper: ZooKeeperEnsemble | None = attrs.field(default=None, converter=_ensemble)
    consumer_id: str | None = None
    consumer_timeout_ms: float | None = attrs.field(default=None, validator=_check_positive)
    offsets_storage: OffsetsStorage = attrs.field(
        default="zookeeper", validator=attrs.validators.in_(("zookeeper", "kafka"))
    )
    dual_commit_enabled: bool | None = None
    rebalance_backoff_ms: float = attrs.field(default=2000, validator=_check_positive)
    rebalance_max_retries: int = attrs.field(default=4, validator=attrs.validators.ge(1))

    def __attrs_post_init__(self) -> None:
        if not self.group_id or (self.coordination == "zookeeper" and not _is_name(self.group_id)):
            raise ValueError(f"group_id is {self.group_id!r}, and has to be the name of a group")

    @property
    def commits_twice(self) -> bool:
        """Return whether offsets are committed to the brokers and to ZooKeeper."""
        return self.offsets_storage == "kafka" and self.dual_commit_enabled is not False

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
        values: dict[str, Any] = {
            field.name: getattr(self, field.name) for field in attrs.fields(ConsumerSettings)
        }
        values["enable_auto_commit"] = False
        if self.coordination == "zookeeper":
            values["group_id"] = None
        return ConsumerSettings(**values)


def _is_name(group_id: str) -> bool:
    return _GROUP_ID.fullmatch(group_id) is not None and group_id not in (".", "..")

"""What an authorizer with many access control entries costs: a producer's speed beside that without one."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

import attrs
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from benchmarks.brokers import NO_SETTINGS, TIDELOG
from benchmarks.rows import Better, Row, Sample, value_at_least

from .context import Bench, started_broker
from .side_by_side import produce_speeds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from confluent_kafka.admin import AdminClient

    from benchmarks.brokers import BrokerKind

_ENTRIES_IN_A_REQUEST: Final = 1_000
_TIMEOUT_S: Final = 60
_SETTINGS: Final = {"authorizer.class.name": "standard", "allow.everyone.if.no.acl.found": "true"}


@attrs.frozen
class AuthorizedProduce:
    """Two brokers take turns: one without an authorizer, one with `entries`, few of which fit the client."""

    entries: int
    name: str = attrs.field(default="authorized-produce", init=False)

    @property
    def rows(self) -> Sequence[Row]:
        title = (
            f"raw client: produce 16KB batches with {self.entries:,} ACLs, in the speed without authorizer"
        )
        return [Row(self.name, title, "×", Better.HIGHER, (value_at_least(0.97),))]

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        with (
            started_broker(kind, work_dir / "open", NO_SETTINGS) as without,
            started_broker(kind, work_dir / "guarded", _SETTINGS) as guarded,
        ):
            _create_acls(guarded.admin, self.entries)
            pairs = produce_speeds(bench, without, guarded)
        medians = {
            "without": median(bare for bare, _ in pairs),
            "guarded": median(checked for _, checked in pairs),
        }
        return [Sample(self.name, median(checked / bare for bare, checked in pairs), dict(medians))]


def _create_acls(admin: AdminClient, entries: int) -> None:
    """Let the client do all first; then come entries of others, half of them for prefixes of names."""
    own = [
        _acl(ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "ANONYMOUS"),
        _acl(ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, "ANONYMOUS"),
    ]
    patterns = (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED)
    others = [
        _acl(ResourceType.TOPIC, f"orders-{number}", patterns[number % 2], f"client-{number % 97}")
        for number in range(entries - len(own))
    ]
    _create(admin, own)
    for first in range(0, len(others), _ENTRIES_IN_A_REQUEST):
        _create(admin, others[first : first + _ENTRIES_IN_A_REQUEST])


def _create(admin: AdminClient, bindings: list[AclBinding]) -> None:
    for created in admin.create_acls(bindings, request_timeout=_TIMEOUT_S).values():
        created.result(_TIMEOUT_S)


def _acl(kind: ResourceType, name: str, pattern: ResourcePatternType, user: str) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{user}", "*", AclOperation.ALL, AclPermissionType.ALLOW)

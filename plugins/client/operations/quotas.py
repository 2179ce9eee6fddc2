"""Quotas of users, client ids and addresses: DescribeClientQuotas and AlterClientQuotas (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.sending import Outcomes, retrying, send_request
from tidelog.plugins.protocol_kafka.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
)
from tidelog.plugins.protocol_kafka.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.plugins.client.steps import Session, Steps

_EXACT: Final = 0
_DEFAULT: Final = 1


@attrs.frozen
class QuotaEntity:
    """Whom a quota is for: any of user, client id and IP address.

    None means that the entity has no such part, `QuotaEntity.DEFAULT` all that have no quota of their own.
    """

    DEFAULT = "<default>"

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def parts(self) -> dict[str, str | None]:
        """Return the names by type as in the protocol, where None is the default of the type."""
        named = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        return {
            kind: None if name == self.DEFAULT else name for kind, name in named.items() if name is not None
        }

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> QuotaEntity:
        """Return the entity of such parts."""
        named = {kind: cls.DEFAULT if name is None else name for kind, name in parts.items()}
        return cls(named.get("user"), named.get("client-id"), named.get("ip"))

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name or self.DEFAULT}" for kind, name in self.parts().items())


def describe_quotas(
    session: Session, matching: QuotaEntity | None = None, *, strict: bool = False
) -> Steps[dict[QuotaEntity, dict[str, float]]]:
    """Return the quotas of all entities, or of those with the parts of `matching`, by key.

    With `strict` entities that have parts of further types are left out.

    Raises:
        UnsupportedByBroker: the broker does not serve DescribeClientQuotas (Kafka before 2.6).
        ErrorResponse: the broker refuses.
        ClientError: no broker answered.
    """
    parts = matching.parts() if matching else {}
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
            for kind, name in parts.items()
        ],
        strict=strict,
    )

    def attempt() -> Steps[dict[QuotaEntity, dict[str, float]]]:
        answer: DescribeClientQuotasResponse = yield from send_request(session, request)
        if answer.error_code:
            raise ErrorResponse(ErrorCode.of(answer.error_code), "quotas", answer.error_message)
        return {
            QuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity}): {
                quota.key: quota.value for quota in entry.values
            }
            for entry in answer.entries or ()
        }

    return (yield from retrying(session, attempt))


def alter_quotas(
    session: Session,
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
    *,
    validate_only: bool = False,
) -> Steps[Outcomes[QuotaEntity, None]]:
    """Set quotas by key, None removes one; return the outcome of each entity, None for success.

    The request is idempotent, so that it is always retried.

    Raises:
        UnsupportedByBroker: the broker does not serve AlterClientQuotas (Kafka before 2.6).
        ClientError: the outcome of every entity is unknown.
    """
    request = AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasEntry(
                entity=[
                    AlterClientQuotasEntity(entity_type=kind, entity_name=name)
                    for kind, name in entity.parts().items()
                ],
                ops=[
                    OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in quotas.items()
                ],
            )
            for entity, quotas in changes.items()
        ],
        validate_only=validate_only,
    )
    answer: AlterClientQuotasResponse = yield from retrying(session, lambda: send_request(session, request))
    outcomes: Outcomes[QuotaEntity, None] = {
        QuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity}): (
            ErrorResponse(ErrorCode.of(entry.error_code), "a quota", entry.error_message)
            if entry.error_code
            else None
        )
        for entry in answer.entries
    }
    return {entity: outcomes.get(entity, ErrorResponse.missing(f"quota of {entity}")) for entity in changes}

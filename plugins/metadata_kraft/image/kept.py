"""Records that this broker has no use for: they are kept as they are and go into every snapshot.

Access control entries, credentials, tokens and quotas replace and remove each other by what they are about;
records of types that are unknown are all kept, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from tidelog.plugins.metadata_kraft.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tidelog.plugins.metadata_kraft.records.settings import ClientQuotaRecord
from tidelog.plugins.metadata_kraft.records.transactions import ZkMigrationStateRecord

if TYPE_CHECKING:
    from tidelog.plugins.metadata_kraft.framing import FramedRecord


def _entry(record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> Hashable:
    return ("acl", record.id)


def _credential(record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> Hashable:
    return ("scram", record.name, record.mechanism)


def _token(record: DelegationTokenRecord | RemoveDelegationTokenRecord) -> Hashable:
    return ("token", record.token_id)


def _quota(record: ClientQuotaRecord) -> Hashable:
    entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
    return ("quota", entity, record.key)


def _migration(record: ZkMigrationStateRecord) -> Hashable:
    return ("migration",)


_SUBJECT_OF: dict[type[Any], Callable[[Any], Hashable]] = {
    AccessControlEntryRecord: _entry,
    RemoveAccessControlEntryRecord: _entry,
    UserScramCredentialRecord: _credential,
    RemoveUserScramCredentialRecord: _credential,
    DelegationTokenRecord: _token,
    RemoveDelegationTokenRecord: _token,
    ClientQuotaRecord: _quota,
    ZkMigrationStateRecord: _migration,
}
_REMOVALS = (RemoveAccessControlEntryRecord, RemoveUserScramCredentialRecord, RemoveDelegationTokenRecord)

KEPT_TYPES = frozenset(_SUBJECT_OF)


@attrs.define(eq=True)
class KeptRecords:
    """The kept records' values, framed as they lay in the log, by what they are about."""

    _values: dict[Hashable, bytes] = attrs.field(factory=dict[Hashable, bytes])
    _unknown: int = 0

    def values(self) -> Iterator[bytes]:
        """All of them, in an order in which they can be read again."""
        return iter(self._values.values())

    def keep(self, record: FramedRecord) -> None:
        """Take a record in; it may replace or remove one that was kept."""
        message = record.message
        if message is None:
            self._values["unknown", self._unknown] = record.value
            self._unknown += 1
            return
        subject = _SUBJECT_OF[type(message)](message)
        self._values.pop(subject, None)
        gone = isinstance(message, _REMOVALS) or (isinstance(message, ClientQuotaRecord) and message.remove)
        if not gone:
            self._values[subject] = record.value

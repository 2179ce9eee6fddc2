"""The removals of each page that has a checklist, a module each, named as the page is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import groups, protocol, storage, transactions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.removals.removal import Removal

REMOVALS: Mapping[str, Sequence[Removal]] = {
    "groups": groups.REMOVALS,
    "protocol": protocol.REMOVALS,
    "storage": storage.REMOVALS,
    "transactions": transactions.REMOVALS,
}

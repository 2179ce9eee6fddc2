"""The removals of each page that has a checklist, a module each, named as the page is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.removals.removal import Removal

REMOVALS: Mapping[str, Sequence[Removal]] = {"storage": storage.REMOVALS}

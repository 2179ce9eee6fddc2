"""What docs/storage.md claims, taken out of the code; a module for each part of its checklist."""

from __future__ import annotations

from typing import Final

from . import (
    append,
    background,
    cleanup,
    directories,
    faults,
    indexes,
    producers,
    reading,
    recovery,
    rolling,
    segments,
)

REMOVALS: Final = (
    *segments.REMOVALS,
    *indexes.REMOVALS,
    *append.REMOVALS,
    *rolling.REMOVALS,
    *reading.REMOVALS,
    *recovery.REMOVALS,
    *producers.REMOVALS,
    *directories.REMOVALS,
    *background.REMOVALS,
    *cleanup.REMOVALS,
    *faults.REMOVALS,
)

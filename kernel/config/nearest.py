"""The name that somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable

_CLOSE_ENOUGH = 0.7
"""difflib's ratio from which on a valid name is worth suggesting; below, suggestions look like nonsense."""


def nearest_name(wrong: str, valid: Iterable[str]) -> str | None:
    """The valid name that is most like a wrong one, None when none is like it."""
    # Not at the top: only a mistake needs it.
    from difflib import get_close_matches

    close = get_close_matches(wrong, list(valid), n=1, cutoff=_CLOSE_ENOUGH)
    return close[0] if close else None

"""Keys of other brokers that no part of this one reads: which are accepted or refused, and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.kernel.config.types import Scope


class Judgement(NamedTuple):
    """The decision about a setting of an unsupported key: `accepted` or refused, and the reason."""

    accepted: bool
    reason: str


class UnsupportedKey(NamedTuple):
    """A key of another broker that a configuration may have, or with `*` at an end of `name` all that fit.

    Exactly one of three is given: `meaningless` says why the key has no meaning here, so that it is accepted;
    `missing` names the part that this broker lacks, so that the key is refused unless its value, in lower
    case, is `neutral`; `renamed` has the names by which to set it today, so that it is refused.
    """

    name: str
    scope: Scope
    meaningless: str = ""
    missing: str = ""
    neutral: tuple[str, ...] = ()
    renamed: str = ""

    def judge(self, text: str) -> Judgement:
        """Return the decision about the value `text`."""
        if self.renamed:
            return Judgement(False, f"is a key of older Kafkas; set {self.renamed} instead")
        if self.meaningless:
            return Judgement(True, f"has no meaning here: {self.meaningless}")
        if text.strip().lower() in self.neutral:
            return Judgement(True, f"changes nothing: this broker has no part for {self.missing}")
        return Judgement(False, f"is a Kafka key that this broker has no part for ({self.missing})")

    def fits(self, name: str) -> bool:
        """Return whether its name is a pattern that matches `name`."""
        # Not fnmatch: it compiles every pattern, which takes longer than all matching.
        pattern, core = self.name, self.name.strip("*")
        if pattern.startswith("*"):
            return core in name if pattern.endswith("*") else name.endswith(core)
        return pattern.endswith("*") and name.startswith(core)


class UnsupportedKeys:
    """All unsupported keys that plugins describe, by name: an exact name takes precedence over a pattern."""

    def __init__(self, keys: Iterable[UnsupportedKey]) -> None:
        described = tuple(keys)
        self._exact = {(key.scope, key.name): key for key in reversed(described)}
        self._patterns = tuple(key for key in described if "*" in key.name)

    def judge(self, name: str, text: str, scope: Scope) -> Judgement | None:
        """Return the decision about `name` = `text`, None for a name that no plugin describes."""
        key = self._exact.get((scope, name))
        if key is None:
            fitting = (each for each in self._patterns if each.scope == scope and each.fits(name))
            key = next(fitting, None)
        return None if key is None else key.judge(text)

"""What the suite knows of a client."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from tests.peers import NEWEST_KAFKA

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .scenarios import Scenario

_ROOT: Final = Path(__file__).parents[2]
DRIVERS: Final = Path(__file__).parent / "drivers"


@attrs.frozen
class DriverCommand:
    """How a driver is started."""

    words: Sequence[str]
    environment: Mapping[str, str] = attrs.field(factory=dict[str, str])

    @classmethod
    def python(cls, program: str, *arguments: str, packages: str = "") -> DriverCommand:
        """Return the command of a driver in Python, with the packages in a folder before those installed."""
        path = os.pathsep.join(filter(None, (packages, str(_ROOT))))
        return cls([sys.executable, str(DRIVERS / "python" / program), *arguments], {"PYTHONPATH": path})


@attrs.frozen
class Client:
    """One release of a client.

    `start` takes the broker's address; it raises PeerUnavailableError when the client cannot be had. `lacks`
    has a reason for each action that the client does not have; "action argument" is more specific. `kafka` is
    the release of Apache Kafka that is old enough for it.
    """

    name: str
    family: str
    start: Callable[[str], DriverCommand]
    lacks: Mapping[str, str] = attrs.field(factory=dict[str, str])
    kafka: str = NEWEST_KAFKA
    scenarios: tuple[Scenario, ...] | None = None

    def reason_against(self, scenario: Scenario) -> str:
        """Return why the client does not have it, "" if it does."""
        specific = f"{scenario.action} {scenario.argument}"
        return self.lacks.get(specific) or self.lacks.get(scenario.action, "")

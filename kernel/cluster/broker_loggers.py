"""The levels of the broker's loggers, which change while it runs and are not kept (KIP-412).

Levels have Kafka's names; `TRACE`, which Python has not, is below `DEBUG`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidelog.kernel.errors import InvalidConfig, InvalidRequest

if TYPE_CHECKING:
    from tidelog.kernel.config import Alter

_log = logging.getLogger(__name__)

ROOT: Final = "root"
TRACE: Final = 5
LEVELS: Final[Mapping[str, int]] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}


class BrokerLoggers:
    """All loggers of this process, by name; `root` is above all others."""

    def levels(self) -> Mapping[str, str]:
        """Return the level in force of each logger."""
        return {name: _level_name(logger.getEffectiveLevel()) for name, logger in _loggers().items()}

    def alter(self, alter: Alter, *, validate_only: bool = False) -> None:
        """Change levels until the broker stops; `alter` gives the new ones from those that are set.

        Other levels are inherited.

        Raises:
            InvalidConfig: there is no such logger, or no such level.
            InvalidRequest: the level of `root` is removed.
            BrokerError: what `alter` raises.
        """
        loggers = _loggers()
        before = {name: _level_name(each.level) for name, each in loggers.items() if each.level}
        after = alter(before)
        # All of them are checked before the first is set, so that a refused request changes nothing.
        for name, level in after.items():
            if name not in loggers:
                raise InvalidConfig(f"Logger {name} does not exist!")
            if level not in LEVELS:
                raise InvalidConfig(
                    f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
                    f"Valid log levels are {', '.join(sorted(LEVELS))}"
                )
        if ROOT in before and ROOT not in after:
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
        if validate_only:
            return
        for name in [name for name in loggers if before.get(name) != after.get(name)]:
            loggers[name].setLevel(LEVELS[after[name]] if name in after else logging.NOTSET)
            _log.info("the level of the logger %s is %s now", name, after.get(name, "inherited"))


def _loggers() -> dict[str, logging.Logger]:
    # A copy first: other threads may create loggers meanwhile.
    known = sorted(logging.root.manager.loggerDict.copy().items())
    return {ROOT: logging.root} | {name: each for name, each in known if isinstance(each, logging.Logger)}


def _level_name(level: int) -> str:
    """Return Kafka's name of a level, that of the next lower one for a number between two."""
    return next((name for name, number in LEVELS.items() if number <= level), "TRACE")

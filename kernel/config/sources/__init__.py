"""Where settings come from: the command line, the environment, a file, or a program that embeds the broker.

A source yields settings as text in Kafka's notation; what they mean is decided later, when all keys are
known.
"""

from __future__ import annotations

from tidelog.kernel.config.sources.read import read_sources, settings_from_mapping
from tidelog.kernel.config.sources.settings import (
    DEFAULT_ORIGIN,
    SINKS,
    Layer,
    Origin,
    OriginKind,
    Setting,
    Sources,
)

__all__ = [
    "DEFAULT_ORIGIN",
    "SINKS",
    "Layer",
    "Origin",
    "OriginKind",
    "Setting",
    "Sources",
    "read_sources",
    "settings_from_mapping",
]

"""Which settings are secrets by their names, where no declaration of a key says so.

Such are the options that a sink passes on to Spark, the keys of another cluster, and arguments of commands:
one rule decides for all of them whether a value may be shown, and whether it may be an argument.
"""

from __future__ import annotations

import re
from typing import Final

_SECRET: Final = re.compile(
    r"(?i)secret|password|passphrase|credential|token|jaas|authorization|"
    r"(?:key[._-]?store|access|account|private|api)[._-]?key"
)
_HARMLESS_END: Final = re.compile(
    r"(?i)(?<![a-z])(?:ms|seconds|url|uri|endpoint|file|location|path|type|algorithm|class|provider|enabled|"
    r"client[._-]?id)$"
)
"""What a name ends with that is about a secret without having one: when it ends, or where it is."""


def names_secret(name: str) -> bool:
    """Return whether a setting of this name has a secret, in Kafka's spelling, Python's or that of Hadoop.

    Of Kafka's keys they are those of the type password, except certificates, which anyone may see.
    """
    return _SECRET.search(name) is not None and _HARMLESS_END.search(name) is None


def mentions_secret(text: str) -> bool:
    """Return whether text that cannot be parsed may have a secret, so that no message quotes it."""
    return _SECRET.search(text) is not None

"""Which topics a connector reads by filter: a white or a black list."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from tidelog.kernel.errors import InvalidRegularExpression
from tidelog.plugins.zookeeper.consumers.subscriptions import topic_filter


def _expression(text: str) -> str:
    try:
        return topic_filter(text)
    except InvalidRegularExpression as error:
        raise ValueError(f"{text!r} is no list of topics: {error}") from error


@attrs.frozen
class WhiteList:
    """The topics whose whole name matches; commas are alternatives.

    Raises:
        ValueError: it is no regular expression of RE2.
    """

    regex: str = attrs.field(converter=_expression)

    @property
    def pattern(self) -> str:
        """Return the regular expression of the topics that are read."""
        return self.regex


@attrs.frozen
class BlackList:
    """The topics whose whole name does not match; else as `WhiteList`."""

    regex: str = attrs.field(converter=_expression)

    @property
    def pattern(self) -> str:
        """Return the regular expression of the topics that are read."""
        return rf"(?!(?:{self.regex})\Z).*"


TopicFilter: TypeAlias = WhiteList | BlackList

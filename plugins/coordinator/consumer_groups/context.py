"""What a decision is made with: configuration, topics, the time, and what was looked up beforehand."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tidelog.plugins.coordinator.consumer_groups.settings import Settings, TopicCatalogue


@attrs.frozen
class Context:
    """One request's surroundings. `resolved` are regular expressions with the topics that they mean now."""

    settings: Settings
    topics: TopicCatalogue
    now_ms: int
    resolved: Mapping[str, frozenset[str]] = attrs.field(factory=dict[str, frozenset[str]])

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.load.clients import producer_config, prompt_producer_config


@pytest.mark.parametrize(
    "config",
    [producer_config("127.0.0.1:1", 1, 16_384, 16, "none"), prompt_producer_config("127.0.0.1:1")],
    ids=["throughput", "prompt"],
)
def test_a_producer_does_not_create_topics_of_past_slices_again(config: dict[str, Any]) -> None:
    """A refresh asks for each topic that was ever produced to, and the broker creates those it lacks."""
    assert config["topic.metadata.refresh.interval.ms"] == -1

"""The kind of sinks `spark`, which every broker has: what runs is imported when it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidelog.kernel.config import ConfigKey, SinkConfig
from tidelog.kernel.errors import ConfigError
from tidelog.plugins.spark_sink.pipelines.keys import CHECKPOINT, KEYS

if TYPE_CHECKING:
    from tidelog.kernel.seams.sinks import Sink, SinkContext


class SparkKind:
    """Sinks that are pipelines."""

    name = "spark"
    keys: Sequence[ConfigKey[Any]] = KEYS

    def create(self, context: SinkContext) -> Sink:
        """Return the sink for one run.

        Raises:
            ConfigError: its values do not fit each other, or another pipeline has the same checkpoint.
        """
        from tidelog.plugins.spark_sink.pipelines.checks import pipeline_of
        from tidelog.plugins.spark_sink.pipelines.sink import PipelineSink

        pipeline_of(context.config)
        for other in context.broker.config.sinks:
            if _shares_checkpoint(other, context.config):
                raise ConfigError(f"{CHECKPOINT} is that of [{other.name.table}], too: each needs its own.")
        return PipelineSink(context)


def _shares_checkpoint(other: SinkConfig, own: SinkConfig) -> bool:
    same_kind = other.name.kind == own.name.kind
    return same_kind and other.name != own.name and other[CHECKPOINT] == own[CHECKPOINT]

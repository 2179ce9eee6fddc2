"""Message sets of clients before Kafka 0.11, converted to the batches that the log takes.

Loaded by the first one: most brokers never see any. See `kernel/records/up_conversion.py` for the conversion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.kernel.log.record_checks import LOOP_MEMORY_BYTES, finish, import_codec, take_steps
from tidelog.kernel.log.validation import LOG_APPEND_TIME, PartitionConfig, record_rules
from tidelog.kernel.records.batch import LEAST_MESSAGE_BYTES, Buffer
from tidelog.kernel.records.compression import memory_for, packs_quickly
from tidelog.kernel.records.up_conversion import (
    MAX_WRAPPED_BYTES,
    UpConversion,
    source_codec,
    up_convert_in_steps,
)

if TYPE_CHECKING:
    from tidelog.kernel.log.memory_budget import Unpacking

QUICK_SET_BYTES = 4 * 1024
"""Limit of the size of a message set that is converted on the event loop at once, which has 150 messages at
most."""


def is_quick(messages: Buffer, config: PartitionConfig) -> bool:
    """Return whether a message set may be converted in one turn of the event loop."""
    return len(messages) <= QUICK_SET_BYTES and not source_codec(messages) and config.compression is None


def convert(messages: Buffer, config: PartitionConfig, now_ms: int) -> bytearray:
    """Return the batch for a message set; see `up_convert_in_steps` for what is raised."""
    return finish(up_convert_in_steps(messages, _conversion(config, now_ms)))


async def convert_in_steps(
    messages: Buffer, config: PartitionConfig, now_ms: int, unpacking: Unpacking
) -> bytearray:
    """Return the batch for a message set as `convert` does, step by step or in a thread."""
    conversion, codec = _conversion(config, now_ms), source_codec(messages)
    await import_codec(codec)
    unpacking_bytes = memory_for(codec, memoryview(messages)[LEAST_MESSAGE_BYTES[0] :])
    memory_bytes = unpacking_bytes + conversion.max_bytes + MAX_WRAPPED_BYTES * bool(codec)
    target = codec if conversion.codec_id is None else conversion.codec_id
    return await take_steps(
        up_convert_in_steps(messages, conversion),
        memory_bytes,
        unpacking,
        on_event_loop=packs_quickly(target, conversion.level) and unpacking_bytes <= LOOP_MEMORY_BYTES,
    )


def _conversion(config: PartitionConfig, now_ms: int) -> UpConversion:
    """Return what message sets have to be, and what they become.

    Raises:
        UnsupportedCompression: no plugin offers the codec of `compression.type`.
    """
    append_time = config.message_timestamp_type == LOG_APPEND_TIME
    rules, target = record_rules(0, 0, config, now_ms), config.compression
    if target is None:
        return UpConversion(rules, config.max_message_bytes, append_time)
    target.check_is_offered()
    return UpConversion(rules, config.max_message_bytes, append_time, target.codec_id, target.level)

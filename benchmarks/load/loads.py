"""Every kind of load."""

from __future__ import annotations

from typing import Any

from .acknowledge import LatencyResult, LatencySpec, acknowledge
from .consume import ConsumeResult, ConsumeSpec, consume
from .end_to_end import end_to_end
from .machine_limit import MachineLimitResult, MachineLimitSpec, receive_check_write, send_file
from .process import Load
from .produce import ProduceResult, ProduceSpec, produce
from .raw_fetch import RawFetchResult, RawFetchSpec, raw_fetch
from .raw_produce import RawProduceResult, RawProduceSpec, raw_produce

PRODUCE = Load("produce", produce, ProduceSpec, ProduceResult)
CONSUME = Load("consume", consume, ConsumeSpec, ConsumeResult)
ACKNOWLEDGE = Load("acknowledge", acknowledge, LatencySpec, LatencyResult)
END_TO_END = Load("end-to-end", end_to_end, LatencySpec, LatencyResult)
RAW_PRODUCE = Load("raw-produce", raw_produce, RawProduceSpec, RawProduceResult)
RAW_FETCH = Load("raw-fetch", raw_fetch, RawFetchSpec, RawFetchResult)
RECEIVE_CHECK_WRITE = Load("receive-check-write", receive_check_write, MachineLimitSpec, MachineLimitResult)
SEND_FILE = Load("send-file", send_file, MachineLimitSpec, MachineLimitResult)

LOADS: dict[str, Load[Any, Any]] = {
    load.name: load
    for load in (
        PRODUCE,
        CONSUME,
        ACKNOWLEDGE,
        END_TO_END,
        RAW_PRODUCE,
        RAW_FETCH,
        RECEIVE_CHECK_WRITE,
        SEND_FILE,
    )
}

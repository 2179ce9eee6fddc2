"""Every kind of load."""

from __future__ import annotations

from .acknowledge import LatencyResult, LatencySpec, acknowledge
from .client_consumers import ClientConsumerResult, ClientConsumerSpec, client_consume
from .client_producers import ClientProducerResult, ClientProducerSpec, client_produce
from .commit import CommitResult, CommitSpec, commit
from .consume import ConsumeResult, ConsumeSpec, consume
from .copies import CopyResult, CopySpec, copy_topic
from .end_to_end import end_to_end
from .flush_limit import FlushLimitResult, FlushLimitSpec, flush_limit
from .greedy import GreedyResult, GreedySpec, greedy
from .handshakes import HandshakesResult, HandshakesSpec, HandshakeStormSpec, handshake_storm, handshakes
from .heartbeats import HeartbeatsResult, HeartbeatsSpec, heartbeats
from .machine_limit import MachineLimitResult, MachineLimitSpec, receive_check_write, send_file
from .many_producers import ManyProducersResult, ManyProducersSpec, many_producers
from .mixed import MixedResult, MixedSpec, mixed
from .old_clients import OldClientResult, OldClientSpec, old_fetch, old_produce
from .partition_append import AppendCostResult, append_cost, receive_append
from .process import Load
from .produce import ProduceResult, ProduceSpec, produce
from .raw_fetch import RawFetchResult, RawFetchSpec, raw_fetch
from .raw_produce import RawProduceResult, RawProduceSpec, raw_produce
from .segments import (
    LookUpResult,
    LookUpSpec,
    OpenResult,
    OpenSpec,
    RecoverResult,
    RecoverSpec,
    look_up,
    open_log,
    recover,
)
from .spark import (
    SparkEndlessResult,
    SparkEndlessSpec,
    SparkResult,
    SparkSpec,
    read_endlessly,
    read_with_spark,
)
from .spark_batches import SmallBatchesResult, SmallBatchesSpec, small_batches
from .waiting_consumers import WaitingConsumersResult, WaitingConsumersSpec, waiting_consumers

PRODUCE = Load("produce", produce, ProduceSpec, ProduceResult)
CLIENT_PRODUCE = Load("client-produce", client_produce, ClientProducerSpec, ClientProducerResult)
CLIENT_CONSUME = Load("client-consume", client_consume, ClientConsumerSpec, ClientConsumerResult)
CONSUME = Load("consume", consume, ConsumeSpec, ConsumeResult)
COPY = Load("copy", copy_topic, CopySpec, CopyResult)
ACKNOWLEDGE = Load("acknowledge", acknowledge, LatencySpec, LatencyResult)
END_TO_END = Load("end-to-end", end_to_end, LatencySpec, LatencyResult)
RAW_PRODUCE = Load("raw-produce", raw_produce, RawProduceSpec, RawProduceResult)
RAW_FETCH = Load("raw-fetch", raw_fetch, RawFetchSpec, RawFetchResult)
OLD_PRODUCE = Load("old-produce", old_produce, OldClientSpec, OldClientResult)
OLD_FETCH = Load("old-fetch", old_fetch, OldClientSpec, OldClientResult)
RECEIVE_CHECK_WRITE = Load("receive-check-write", receive_check_write, MachineLimitSpec, MachineLimitResult)
MANY_PRODUCERS = Load("many-producers", many_producers, ManyProducersSpec, ManyProducersResult)
FLUSH_LIMIT = Load("flush-limit", flush_limit, FlushLimitSpec, FlushLimitResult)
COMMIT = Load("commit", commit, CommitSpec, CommitResult)
HANDSHAKES = Load("handshakes", handshakes, HandshakesSpec, HandshakesResult)
HANDSHAKE_STORM = Load("handshake-storm", handshake_storm, HandshakeStormSpec, HandshakesResult)
GREEDY = Load("greedy", greedy, GreedySpec, GreedyResult)
HEARTBEATS = Load("heartbeats", heartbeats, HeartbeatsSpec, HeartbeatsResult)
WAITING_CONSUMERS = Load("waiting-consumers", waiting_consumers, WaitingConsumersSpec, WaitingConsumersResult)
MIXED = Load("mixed", mixed, MixedSpec, MixedResult)
SEND_FILE = Load("send-file", send_file, MachineLimitSpec, MachineLimitResult)
RECEIVE_APPEND = Load("receive-append", receive_append, MachineLimitSpec, MachineLimitResult)
APPEND_COST = Load("append-cost", append_cost, MachineLimitSpec, AppendCostResult)
OPEN_LOG = Load("open-log", open_log, OpenSpec, OpenResult)
RECOVER = Load("recover", recover, RecoverSpec, RecoverResult)
LOOK_UP = Load("look-up", look_up, LookUpSpec, LookUpResult)
SPARK = Load("spark", read_with_spark, SparkSpec, SparkResult)
SPARK_ENDLESS = Load("spark-endless", read_endlessly, SparkEndlessSpec, SparkEndlessResult)
SPARK_BATCHES = Load("spark-batches", small_batches, SmallBatchesSpec, SmallBatchesResult)

"""What is measured: each scenario fills the rows that it declares."""

from .application_test import ApplicationTest
from .authorized import AuthorizedProduce
from .client_consumers import client_consumers
from .client_limits import LatencyLimit, ProduceLimit
from .client_producers import client_producers
from .codecs import codecs
from .comfort import Comfort
from .compaction import compactions
from .context import (
    Bench,
    BrokerScenario,
    ConfiguredScenario,
    LaunchScenario,
    MachineScenario,
    PackageScenario,
    RunningBroker,
    Scenario,
)
from .durability import durability, flush_limits
from .greedy import GreedyClient
from .groups import CommitLatency, Heartbeats, LoadedOffsets
from .http_records import HttpRecords
from .imports import ImportTime
from .intercepted import intercepted
from .latency import latencies
from .launch import TimeToReady
from .machine_limits import machine_limits
from .memory import ROWS as MEMORY_ROWS
from .memory import idle_memory, memory_after_load
from .mirror import mirror_copies
from .mixed import MixedLoad
from .old_clients import old_clients
from .raw_client import raw_clients
from .shapes import DEFAULT_MATRIX, FULL_MATRIX, SMOKE_MATRIX, Shape
from .spark import spark_scenarios
from .storage import storage_scenarios
from .throughput import Throughput
from .tls import tls_scenarios
from .waiting_consumers import WaitingConsumers
from .warm_up import repeat_until_warm, warm_up

__all__ = [
    "DEFAULT_MATRIX",
    "FULL_MATRIX",
    "MEMORY_ROWS",
    "SMOKE_MATRIX",
    "ApplicationTest",
    "AuthorizedProduce",
    "Bench",
    "BrokerScenario",
    "Comfort",
    "CommitLatency",
    "ConfiguredScenario",
    "GreedyClient",
    "Heartbeats",
    "HttpRecords",
    "ImportTime",
    "LatencyLimit",
    "LaunchScenario",
    "LoadedOffsets",
    "MachineScenario",
    "MixedLoad",
    "PackageScenario",
    "ProduceLimit",
    "RunningBroker",
    "Scenario",
    "Shape",
    "Throughput",
    "TimeToReady",
    "WaitingConsumers",
    "client_consumers",
    "client_producers",
    "codecs",
    "compactions",
    "durability",
    "flush_limits",
    "idle_memory",
    "intercepted",
    "latencies",
    "machine_limits",
    "memory_after_load",
    "mirror_copies",
    "old_clients",
    "raw_clients",
    "repeat_until_warm",
    "spark_scenarios",
    "storage_scenarios",
    "tls_scenarios",
    "warm_up",
]

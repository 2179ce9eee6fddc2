"""Order of the test files: a file that takes long and comes last keeps one process busy while others wait."""

from __future__ import annotations

from pathlib import Path

# Tests on one JVM with Spark, whose start and first queries take longer than all that they do with it.
SPARK = (
    "tests/plugins/spark_sink/test_spark.py",
    "tests/docs/test_spark_page.py",
    "tests/plugins/spark_sink/pipelines/test_query.py",
    "tests/plugins/spark_sink/test_flights.py",
    "tests/plugins/spark_sink/test_failing_queries.py",
    "tests/plugins/spark_sink/test_secured.py",
    "tests/plugins/spark_sink/load/test_load_with_spark.py",
    "tests/docs/test_load_page.py",
)
# Long tests on another one: all in a row would take longer than all other long tests together.
LONG_SPARK = (
    "tests/docs/test_spark_pipelines_run.py",
    "tests/plugins/spark_sink/test_beside_kafkas_format.py",
)
# Tests with the Apache Kafka of the fixture `shared_kafka`, which takes longer to start than most of them.
KAFKA = (
    "tests/plugins/protocol_kafka/against_kafka/test_errors.py",
    "tests/plugins/protocol_kafka/against_kafka/test_fetch_sessions.py",
    "tests/plugins/protocol_kafka/against_kafka/test_odd_broker_values.py",
    "tests/plugins/protocol_kafka/against_kafka/test_odd_values.py",
    "tests/plugins/protocol_kafka/against_kafka/test_operators.py",
    "tests/plugins/protocol_kafka/against_kafka/test_enforced_quotas.py",
    "tests/plugins/protocol_kafka/against_kafka/test_quotas_and_credentials.py",
    "tests/plugins/protocol_kafka/against_kafka/test_resources.py",
    "tests/plugins/client/admin/test_admin.py",
    "tests/plugins/client/consumer/test_real_consumers.py",
    "tests/plugins/client/consumer/test_real_groups.py",
    "tests/plugins/client/consumer/test_simple_consumer.py",
    "tests/plugins/client/producer/test_real_producers.py",
    "tests/plugins/client/producer/test_producer_transactions.py",
    "tests/plugins/client/test_every_broker.py",
    "tests/plugins/mirror/test_every_source.py",
    "tests/plugins/client/test_exactly_once_page.py",
    "tests/plugins/client/test_real_brokers.py",
    "tests/plugins/client/test_real_transactions.py",
    "tests/plugins/spark_sink/source/test_batch_reader.py",
    "tests/plugins/spark_sink/source/test_prefetching.py",
    "tests/plugins/spark_sink/source/test_stream_reader.py",
    "tests/plugins/spark_sink/writer/test_producing.py",
    "tests/plugins/spark_sink/writer/test_transactions.py",
    "tests/plugins/client_commands/topics/test_commands.py",
    "tests/plugins/client_commands/groups/test_group_commands.py",
    "tests/plugins/client_commands/configs/test_config_commands.py",
    "tests/plugins/client_commands/partitions/test_partition_commands.py",
    "tests/plugins/client_commands/produce/test_produce_command.py",
    "tests/plugins/client_commands/consume/test_consume_command.py",
    "tests/plugins/client_commands/quotas/test_quota_commands.py",
)
# Longest first; the rest follows in the order of collection.
LONGEST = (
    *LONG_SPARK,
    *SPARK,
    *KAFKA,
    "tests/plugins/protocol_kafka/against_kafka/test_authorization.py",
    "tests/bad_input/test_bystander.py",
    "tests/bad_input/test_bystander_of_large_state.py",
    "tests/hands/test_hands.py",
    "tests/plugins/zookeeper/test_against_kafka.py",
    "tests/plugins/zookeeper/test_old_clients.py",
    "tests/crash/test_every_step.py",
    "tests/crash/test_power_cut.py",
    "tests/mirror_kills/test_mirror_kills.py",
    "tests/spark_kills/test_spark_kills.py",
    "tests/plugins/cleaner/compaction/test_against_kafka.py",
    "tests/faults/test_processes.py",
    "tests/clients/groups/test_groups.py",
    "tests/clients/groups/test_consumer_protocol.py",
    "tests/clients/test_flights.py",
    "tests/plugins/storage_file/test_short_reads.py",
    "tests/plugins/storage_file/test_conformance.py",
    "tests/plugins/storage_file/recovery/test_segment_recovery.py",
    "tests/bad_input/test_answers.py",
    "tests/docs/test_operations_page.py",
    "tests/docs/test_sinks_page.py",
    "tests/bad_input/test_edges.py",
    "tests/plugins/metadata_kraft/test_change_of_hands.py",
    "tests/crash/test_compaction.py",
    "tests/crash/test_moves.py",
    "tests/plugins/cleaner/execution/test_rewriting.py",
    "tests/clients/test_restarts.py",
    "tests/plugins/storage_file/segments/test_swap_files.py",
    "tests/clients/test_java_clients.py",
    "tests/bad_input/test_unpacking_memory.py",
    "tests/bad_input/test_memory.py",
    "tests/soak/test_soak.py",
    "tests/plugins/spark_sink/pipelines/test_conformance.py",
    "tests/clients/test_transactions.py",
    "tests/clients/exactly_once/test_exactly_once.py",
    "tests/clients/test_group_tools.py",
    "tests/clients/test_java_tools.py",
    "tests/clients/test_go_clients.py",
    "tests/plugins/protocol_kafka/messages/test_fuzz.py",
    "tests/plugins/protocol_kafka/messages/test_differential.py",
    "tests/plugins/protocol_kafka/messages/test_kio.py",
    "tests/scale/test_scale.py",
)
UNITS = (LONG_SPARK, SPARK, KAFKA)
_RANKS = {file: rank for rank, file in enumerate(LONGEST)}


def longest_first(node_id: str) -> int:
    """Return the place of a test's file among all files, by the test's node id."""
    return _RANKS.get(node_id.partition("::")[0], len(LONGEST))


def unit_of_work(node_id: str) -> str:
    """Return what tests of one process have in common: their file, or the first one of its unit."""
    file = node_id.partition("::")[0]
    return next((unit[0] for unit in UNITS if file in unit), file)


def place(node_id: str) -> tuple[int, str]:
    """Return the key by which all processes sort the tests; those of a file stay as they are in it."""
    return longest_first(node_id), node_id.partition("::")[0]


def in_turn(tests: Path, worker: int, workers: int) -> list[str]:
    """Return the files and folders of the suite, each process with another one first.

    All processes collect all tests. In a fresh clone pytest compiles each file of tests; in the same order
    every process would compile every file, since none is ever there before.
    """
    folders = ("", "kernel", "plugins", "plugins/protocol_kafka")
    found = [
        path
        for folder in folders
        for path in sorted((tests / folder).iterdir())
        if str(path.relative_to(tests)) not in folders
        and not path.name.startswith((".", "_"))
        and (path.is_dir() or path.match("test_*.py"))
    ]
    first = len(found) * worker // workers
    return [str(path) for path in found[first:] + found[:first]]

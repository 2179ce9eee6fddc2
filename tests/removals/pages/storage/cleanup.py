"""Cleanup policies and retention."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_CLEANUP = "kernel/cleanup/policy_execution.py"
_POLICY = "plugins/retention/policy.py"
_POLICIES = "`cleanup.policy`: `delete` deletes, other policies come from plugins"
_RULES = "`retention.ms`, `retention.bytes`, and the log start, in Kafka's order"
_TESTS = "plugins/retention"

REMOVALS: Final = (
    Removal(
        _POLICIES,
        _CLEANUP,
        "if self.policy.name in topic.config[keys.CLEANUP_POLICY] and partition.offline is None:",
        "if partition.offline is None:",
        "kernel/cleanup/test_policy_execution.py::test_run_passes_over_topics_of_other_policies_and_offline_partitions",
    ),
    Removal(
        _POLICIES,
        _CLEANUP,
        "            check_plan(planned, log)\n",
        "",
        "kernel/cleanup/test_policy_execution.py::test_run_refuses_a_wrong_plan_and_says_so_once",
    ),
    Removal(
        _POLICIES,
        "kernel/partition/validation.py",
        '"compact" in config[keys.CLEANUP_POLICY]',
        "False",
        "kernel/partition/test_record_checks.py::test_append_refuses_records_without_a_key_in_a_compacted_topic",
    ),
    Removal(
        _RULES,
        _POLICY,
        "        deletable.take_below_log_start()\n",
        "",
        f"{_TESTS}/test_policy.py::test_segments_below_the_log_start_go",
    ),
    Removal(
        _RULES,
        _POLICY,
        "            deletable.take_larger_than(retention_bytes)\n",
        "            pass\n",
        f"{_TESTS}/test_policy.py::test_retention_bytes_keeps_at_least_so_much",
    ),
    Removal(
        _RULES,
        _POLICY,
        "        deletable.take_older_than(retention_ms, now_ms)\n",
        "",
        f"{_TESTS}/test_policy.py::test_retention_ms_deletes_from_the_oldest_on",
    ),
    Removal(
        _RULES,
        _POLICY,
        "end <= log.high_watermark and ",
        "",
        f"{_TESTS}/test_policy.py::test_nothing_goes_that_is_not_committed",
    ),
    Removal(
        "`log.retention.check.interval.ms`",
        _POLICY,
        "return config[keys.LOG_RETENTION_CHECK_INTERVAL_MS]",
        "return 1 << 40",
        f"{_TESTS}/test_retention.py::test_a_consumer_reads_on_without_a_gap_while_old_segments_go",
    ),
)

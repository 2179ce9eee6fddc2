"""Cleanup policies, retention and compaction."""

from __future__ import annotations

from typing import Final

from tests.removals.removal import Removal

_CLEANUP = "plugins/cleaner/execution/policy_execution.py"
_CRASH_TEST = "crash/test_compaction.py"
_POLICY = "plugins/retention/policy.py"
_POLICIES = "`cleanup.policy`: `delete` deletes, other policies come from plugins"
_RULES = "`retention.ms`, `retention.bytes`, and the log start, in Kafka's order"
_TESTS = "plugins/retention"
_COMPACTION = "plugins/cleaner/compaction/policy.py"
_COMPACTION_KEYS = "`min.cleanable.dirty.ratio`, `min.compaction.lag.ms`"
_COMPACTION_TEST = "plugins/cleaner/compaction/test_compaction.py::test_compaction"

REMOVALS: Final = (
    Removal(
        _POLICIES,
        _CLEANUP,
        "applies = self.policy.name in config[keys.CLEANUP_POLICY]",
        "applies = True",
        "plugins/cleaner/execution/test_policy_execution.py::test_run_passes_over_topics_of_other_policies_and_offline_partitions",
    ),
    Removal(
        _POLICIES,
        "plugins/cleaner/execution/planning.py",
        "        check_plan(plan, log)\n",
        "",
        "plugins/cleaner/execution/test_policy_execution.py::test_run_refuses_a_wrong_plan_and_says_so_once",
    ),
    Removal(
        _POLICIES,
        "kernel/partition/validation.py",
        '"compact" in config[keys.CLEANUP_POLICY]',
        "False",
        "kernel/partition/test_record_checks.py::test_append_refuses_records_without_a_key_in_a_compacted_topic",
    ),
    Removal(
        "A broker warns of cleanup policies that nothing carries out",
        "kernel/topics/policy_warnings.py",
        "installed if has_log_cleaner else ()",
        "installed",
        "kernel/topics/test_policy_warnings.py::test_on_event_logs_the_policies_of_a_topic_that_nothing_carries_out",
    ),
    Removal(
        "A broker warns of cleanup policies that nothing carries out",
        "plugins/cleaner/plugin.py",
        "    broker.register_log_cleaner(cleanup)\n",
        "",
        "kernel/topics/test_policy_warnings.py::test_nothing_is_logged_of_policies_that_are_carried_out",
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
        "            deletable.take_older_than(retention_ms, now_ms)\n",
        "            pass\n",
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
        "Compaction: of each key the newest record",
        _CLEANUP,
        "waiting = sorted(wanted, key=lambda each: each.rewrite.urgency)",
        "waiting = list(wanted)",
        "plugins/cleaner/execution/test_rewriting.py::test_rewrite_of_the_most_urgent_log_comes_first",
    ),
    Removal(
        "Compaction: of each key the newest record",
        "plugins/cleaner/compaction/newest_offsets.py",
        "newest[inside] = self._newest.has(places[inside])",
        "newest[inside] = self._surveyed.has(places[inside])",
        f"{_COMPACTION_TEST}_keeps_the_newest_record_of_each_key_and_goes_on_after_a_restart",
    ),
    Removal(
        "A crash at any step of a compaction",
        "plugins/storage_file/segments/swap_files.py",
        "        _remove(directory, names, _replaced(directory, names))\n",
        "",
        f"{_CRASH_TEST}::test_the_process_may_end_anywhere_in_a_compaction",
    ),
    Removal(
        "A crash at any step of a compaction",
        _CLEANUP,
        "                rewritten = await worker.rewrite(",
        "                partition.store.set_rewritten_until(self.policy.name, rewrite.until)\n"
        "                rewritten = await worker.rewrite(",
        f"{_CRASH_TEST}::test_the_process_may_end_anywhere_in_a_compaction",
    ),
    Removal(
        "A log is flushed before it is rewritten",
        "plugins/cleaner/execution/rewriting.py",
        "        await partition.flush()\n",
        "",
        f"{_CRASH_TEST}::test_compaction_removes_nothing_for_the_sake_of_what_the_power_may_take",
    ),
    Removal(
        "How far a policy has rewritten a log is kept",
        "plugins/storage_file/directories/checkpoints.py",
        '_COMPACTION_CHECKPOINT = "cleaner-offset-checkpoint"',
        '_COMPACTION_CHECKPOINT = "compact-offset-checkpoint"',
        f"{_COMPACTION_TEST}_keeps_the_newest_record_of_each_key_and_goes_on_after_a_restart",
    ),
    Removal(
        _COMPACTION_KEYS,
        _COMPACTION,
        "dirt.ratio > config[keys.MIN_CLEANABLE_DIRTY_RATIO]",
        "dirt.ratio > 0.5",
        "plugins/cleaner/compaction/test_policy.py::test_plan_rewrites_above_the_cleanable_ratio",
    ),
    Removal(
        _COMPACTION_KEYS,
        _COMPACTION,
        "if is_dirty and min_lag_ms and segment.age_timestamp > now_ms - min_lag_ms:",
        "if False:",
        "plugins/cleaner/compaction/test_policy.py::test_plan_leaves_segments_with_records_younger_than_the_least_lag",
    ),
    Removal(
        _COMPACTION_KEYS,
        _COMPACTION,
        "delete_retention_ms=config[keys.DELETE_RETENTION_MS]",
        "delete_retention_ms=0",
        "plugins/cleaner/compaction/test_policy.py::test_plan_passes_on_how_long_tombstones_stay",
    ),
    Removal(
        "`log.cleaner.*`, all of Kafka's",
        _COMPACTION,
        " if config[keys.LOG_CLEANER_ENABLE] else 0",
        "",
        "plugins/cleaner/compaction/test_policy.py::test_interval_ms_is_0_without_the_cleaner",
    ),
    Removal(
        "`log.retention.check.interval.ms`",
        _POLICY,
        "return config[keys.LOG_RETENTION_CHECK_INTERVAL_MS]",
        "return 1 << 40",
        f"{_TESTS}/test_retention.py::test_a_consumer_reads_on_without_a_gap_while_old_segments_go",
    ),
)

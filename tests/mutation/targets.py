"""Which quick tests belong to a module."""

from __future__ import annotations

from pathlib import Path

# Beyond the mirrored folder: prefix of the module's path, and the tests that prove it as well.
EXTRA_TESTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("kernel/controller/cluster.py", ("tests/plugins/protocol_kafka/handlers/test_metadata.py",)),
    (
        "kernel/partition/",
        ("tests/plugins/storage_memory", "tests/plugins/storage_file/recovery/test_segment_recovery.py"),
    ),
    ("plugins/client/drivers/", ("tests/plugins/client/test_hostile_servers.py",)),
    ("plugins/coordinator/", ("tests/plugins/coordinator/test_conformance.py",)),
)

_CLIENT_OPERATIONS = "tests/plugins/client/operations"

# Modules whose folder has many tests that never come near them: the tests that do, besides the mirrored file.
NEAR_TESTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("kernel/records/checking.py", ("tests/kernel/partition/test_record_checks.py",)),
    ("kernel/records/up_conversion.py", ()),
    *(
        (f"plugins/client/{name}.py", ("tests/plugins/client/test_connection.py", _CLIENT_OPERATIONS))
        for name in ("connection", "frames", "requests")
    ),
    *(
        (f"plugins/client/{name}.py", (_CLIENT_OPERATIONS,))
        for name in ("batches", "errors", "fetch_sessions", "producers", "settings", "steps")
    ),
    ("plugins/client/cluster.py", ("tests/plugins/client/test_settings.py", _CLIENT_OPERATIONS)),
    ("plugins/client/drivers/link.py", ("tests/plugins/client/drivers/test_drivers.py",)),
    ("plugins/client/__init__.py", ("tests/plugins/client/test_imports.py",)),
    *(
        (
            f"plugins/spark_sink/source/{name}.py",
            ("tests/plugins/spark_sink/source/test_compacted_topics.py",),
        )
        for name in ("batch_reader", "local_log", "options", "prefetching", "stream_reader")
    ),
    (
        "plugins/spark_sink/source/reading.py",
        tuple(
            f"tests/plugins/spark_sink/source/test_{name}.py"
            for name in ("batch_reader", "compacted_topics", "stream_reader")
        ),
    ),
    *(
        (
            f"plugins/spark_sink/load/{name}.py",
            (
                "tests/plugins/spark_sink/load/test_load_errors.py",
                "tests/plugins/spark_sink/load/test_execution.py",
            ),
        )
        for name in ("command", "planning")
    ),
    ("plugins/spark_sink/load/progress.py", ()),
    ("plugins/spark_sink/load/spark.py", ()),
    ("plugins/protocol_kafka/handlers/down_conversion.py", ()),
    ("plugins/retention/keys.py", ()),
    ("plugins/retention/policy.py", ()),
    (
        "plugins/storage_file/recovery/segment_recovery.py",
        (
            "tests/plugins/storage_file/indexes/test_formats.py",
            "tests/plugins/storage_file/recovery/test_old_formats.py",
            "tests/plugins/storage_file/recovery/test_splitting.py",
        ),
    ),
    (
        "plugins/storage_file/recovery/log_loader.py",
        (
            "tests/plugins/storage_file/indexes/test_formats.py",
            "tests/plugins/storage_file/indexes/test_transaction_index.py",
            "tests/plugins/storage_file/recovery/test_old_formats.py",
            "tests/plugins/storage_file/recovery/test_segment_recovery.py",
            "tests/plugins/storage_file/recovery/test_splitting.py",
            "tests/plugins/storage_file/test_short_reads.py",
        ),
    ),
    ("plugins/cleaner/compaction/hashing.py", ()),
    ("plugins/cleaner/compaction/offset_map.py", ()),
    ("plugins/cleaner/compaction/newest_offsets.py", ("tests/plugins/cleaner/compaction/test_policy.py",)),
    (
        "plugins/cleaner/compaction/keep_newest.py",
        (
            "tests/plugins/cleaner/compaction/test_newest_offsets.py",
            "tests/plugins/cleaner/compaction/test_policy.py",
        ),
    ),
    ("plugins/cleaner/compaction/policy.py", ()),
    ("plugins/cleaner/execution/log_state.py", ("tests/plugins/cleaner/execution/test_policy_execution.py",)),
    ("plugins/cleaner/execution/rewriting.py", ("tests/plugins/cleaner/execution/test_workers.py",)),
    ("plugins/cleaner/execution/workers.py", ()),
    (
        "plugins/cleaner/execution/planning.py",
        (
            "tests/plugins/cleaner/execution/test_log_state.py",
            "tests/plugins/cleaner/execution/test_policy_execution.py",
        ),
    ),
    (
        "plugins/cleaner/execution/policy_execution.py",
        ("tests/plugins/cleaner/execution/test_rewriting.py",),
    ),
    (
        "plugins/cleaner/execution/log_cleanup.py",
        (
            "tests/plugins/cleaner/execution/test_policy_execution.py",
            "tests/plugins/cleaner/execution/test_rewriting.py",
            "tests/plugins/cleaner/test_command.py",
        ),
    ),
    ("plugins/cleaner/worker/scheduling.py", ()),
    ("plugins/cleaner/worker/segments.py", ("tests/plugins/cleaner/worker/test_rewriter.py",)),
    (
        "plugins/cleaner/worker/rewriter.py",
        (
            "tests/plugins/cleaner/worker/test_old_formats.py",
            "tests/plugins/cleaner/worker/test_transactions.py",
        ),
    ),
    ("plugins/cleaner/worker/process.py", ()),
    (
        "plugins/cleaner/worker/__main__.py",
        (
            "tests/plugins/cleaner/worker/test_broker_connection.py",
            "tests/plugins/cleaner/worker/test_process.py",
            "tests/plugins/cleaner/worker/test_throttle.py",
        ),
    ),
)

# They start other servers or Java, or whole processes: what they prove, quick tests have to prove as well.
SLOW_TESTS = (
    "*change_of_hands*",
    "*change_hands*",
    "*dump_log*",
    "*test_kill.py",
    "*/tests/peers/*",
    "*/tests/clients/*",
    "*/tests/scale/*",
    "*/tests/plugins/client/test_real_*",
    "*/tests/plugins/client/test_restart.py",
)


# What is loaded once for all mutants of a folder: it imports nothing of the folder, as `make layers` checks.
_KERNEL = ("tidelog.kernel.broker", "tidelog.kernel.testing", "tests.peers")
PRELOADED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("plugins/spark_sink/", (*_KERNEL, "tidelog.plugins.client")),
    ("plugins/", _KERNEL),
)


def preloaded(module: Path) -> list[str]:
    """Return the modules of the project that no mutant of this one can change."""
    return [name for prefix, names in PRELOADED if str(module).startswith(prefix) for name in names]


def modules_under(path: Path, root: Path) -> list[Path]:
    """Return the modules of a folder, or the one module, relative to the root of the checkout."""
    found = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [module.resolve().relative_to(root) for module in found]


def quick_tests(module: Path, root: Path) -> list[str]:
    """Return a module's test paths: the file that mirrors it first, its folder, what the tables say."""
    folder = root / "tests" / module.parent
    while not folder.is_dir():
        folder = folder.parent
    mirrored = folder / f"test_{module.stem}.py"
    first = [str(mirrored.relative_to(root))] if mirrored.is_file() else []
    for name, near in NEAR_TESTS:
        if name == str(module):
            return list(dict.fromkeys([*first, *near]))
    extra = [test for prefix, tests in EXTRA_TESTS if str(module).startswith(prefix) for test in tests]
    return [
        *first,
        *dict.fromkeys([str(folder.relative_to(root)), *(test for test in extra if (root / test).exists())]),
    ]

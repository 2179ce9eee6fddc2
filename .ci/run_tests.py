"""Runs `make test` or `make test-long`, and again a few tests that failed: they are unstable if they pass.

The second run has one worker and takes whole files, as the examples of a page follow each other. It only
counts if each of the tests that failed was run and passed, and none beside it failed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
# Targets may run at the same time, so each has a file of its own.
FAILED = ".pytest_cache/{target}/v/cache/lastfailed"
REPORT = "build/{target}-run-again.xml"
# A change that breaks something mostly breaks more tests than that.
MOST_RUN_AGAIN: Final = 3


# The last line of make: what ended the target, in the language of the machine.
ENDED = re.compile(r"\*\*\* \[(?:.*: )?test(?:-long|-pure)?\] \S+ (\d+)$")
PASSED: Final = 0
TESTS_FAILED: Final = 1  # pytest's status after a run that was not interrupted
UNKNOWN: Final = -1


def make(root: Path, target: str, *arguments: str) -> int:
    """The status with which pytest ended: make's own is the same for failures and for an interrupted run."""
    command = ["make", target, *arguments]
    print(f"+ {' '.join(command)}", flush=True)
    status = UNKNOWN
    with subprocess.Popen(
        command, cwd=root, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            sys.stderr.write(line)
            ended = ENDED.search(line.rstrip())
            status = int(ended[1]) if ended else status
    return PASSED if running.returncode == 0 else status


def failed_tests(root: Path, target: str) -> list[str]:
    """The node ids that pytest remembers: of tests, and of files that it could not collect."""
    file = root / FAILED.format(target=target)
    return sorted(json.loads(file.read_text())) if file.exists() else []


def may_run_again(failed: list[str]) -> bool:
    """Whether it can have been chance: a few tests failed, all of which could be collected."""
    return 0 < len(failed) <= MOST_RUN_AGAIN and all("::" in each for each in failed)


def name_in_report(test: str) -> str:
    """What a report calls a test: the names of its module and class, and its own with its parameters."""
    place, bracket, parameters = test.partition("[")
    file, *classes, function = place.split("::")
    return ".".join((*file.removesuffix(".py").split("/"), *classes, function + bracket + parameters))


def passed_again(root: Path, target: str, failed: list[str]) -> bool:
    """Run their files, and check that none of them was left out or skipped."""
    report = REPORT.format(target=target)
    (root / report).unlink(missing_ok=True)
    files = sorted({test.partition("::")[0] for test in failed})
    options = f"{' '.join(files)} --junitxml={report}"
    all_files = ("LONG_TEST_FILES=", "READS_RECORDS=")
    status = make(root, target, "PYTEST_WORKERS=1", f"PYTEST_ARGS={options}", *all_files)
    if status != PASSED or failed_tests(root, target):
        return False
    unwanted = {"error", "failure", "skipped"}
    passed = {
        f"{case.get('classname')}.{case.get('name')}"
        for case in ElementTree.parse(root / report).iter("testcase")
        if not any(part.tag in unwanted for part in case)
    }
    return passed.issuperset(map(name_in_report, failed))


def run_tests(root: Path, target: str, unstable: Path | None) -> bool:
    """Whether every test of a target of make passed, in the first run or in the second one.

    The node ids of those that needed the second one are appended to the file `unstable`.
    """
    # What an earlier run left behind is not this one's failure.
    (root / FAILED.format(target=target)).unlink(missing_ok=True)
    status = make(root, target)
    if status == PASSED:
        return True
    failed = failed_tests(root, target)
    if status != TESTS_FAILED or not may_run_again(failed):
        print(
            f"pytest ended with {status}, {len(failed)} failed: at most {MOST_RUN_AGAIN} are run again",
            flush=True,
        )
        return False
    print("\n===== run again, alone =====", *failed, sep="\n", flush=True)
    if not passed_again(root, target, failed):
        print("\n===== failed again =====", flush=True)
        return False
    lines = "".join(f"{each}\n" for each in failed)
    print(f"\n===== UNSTABLE: failed at first, passed when run again =====\n{lines}", flush=True)
    if unstable is not None:
        with unstable.open("a", encoding="utf-8") as file:
            file.write(lines)
    return True


def main() -> None:
    (target,) = sys.argv[1:]
    name = os.environ.get("UNSTABLE_TESTS")
    sys.exit(0 if run_tests(ROOT, target, Path(name) if name else None) else 1)


if __name__ == "__main__":
    main()

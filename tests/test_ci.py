"""CI runs all tests, and a few that failed once more; it fails unless each of these was run and passed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE_S

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / ".ci" / "run_tests.py"
TARGETS = ("test", "test-pure", "test-long")
PYTEST = """
WORKERS = $(or $(PYTEST_WORKERS),1)

{target}:
\t{python} -m pytest -p xdist -n $(WORKERS) --dist loadfile -o cache_dir=.pytest_cache/$@ $(PYTEST_ARGS)
"""
# The first argument of a run that is not the first one is the file of its report.
FAKE = """
test:
\t@python3 fake.py $(if $(PYTEST_ARGS),$(lastword $(subst =, ,$(PYTEST_ARGS))))
"""
FAKE_PYTEST = """
import json, sys
from pathlib import Path

runs = json.loads(Path("runs").read_text())
status, failed, report = runs[len(sys.argv) - 1]
cache = Path(".pytest_cache/test/v/cache/lastfailed")
cache.parent.mkdir(parents=True, exist_ok=True)
cache.write_text(json.dumps(dict.fromkeys(failed, True)))
for name in sys.argv[1:]:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(f"<testsuites><testsuite>{report}</testsuite></testsuites>")
sys.exit(status)
"""
FIRST, SECOND = "<testcase classname='t' name='1'/>", "<testcase classname='t' name='2'/>"
SKIPPED = "<testcase classname='t' name='2'><skipped/></testcase>"
OTHER = "<testcase classname='t' name='3'/>"


def run_tests(root: Path, makefile: str, target: str = "test") -> subprocess.CompletedProcess[str]:
    """Run a copy of the script in a project that has that Makefile."""
    (root / ".ci").mkdir()
    script = root / ".ci" / SCRIPT.name
    script.write_text(SCRIPT.read_text())
    (root / "Makefile").write_text(makefile)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "UNSTABLE_TESTS": str(root / "unstable"),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    return subprocess.run(
        [sys.executable, str(script), target],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


@pytest.mark.parametrize("target", TARGETS)
def test_unstable_tests_pass_when_run_again_and_are_named(tmp_path: Path, target: str) -> None:
    (tmp_path / "unstable").write_text("of another target\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\nfrom pathlib import Path\n\n"
        "made = []\n\n"
        "def test_that_passes():\n    made.append(1)\n\n"
        "@pytest.mark.parametrize('case', ['plain', 'a [b] ::c'])\n"
        "def test_unstable(case):\n"
        "    file = Path('run' + str(len(case)))\n"
        "    was_there = file.exists()\n"
        "    file.touch()\n"
        "    assert was_there and made\n"
    )
    ended = run_tests(tmp_path, PYTEST.format(target=target, python=sys.executable), target)
    assert ended.returncode == 0, ended
    assert "2 failed, 1 passed" in ended.stdout
    assert "3 passed" in ended.stdout
    names = ["test_it.py::test_unstable[a [b] ::c]", "test_it.py::test_unstable[plain]"]
    assert "UNSTABLE: failed at first, passed when run again =====\n" + "\n".join(names) in ended.stdout
    assert (tmp_path / "unstable").read_text().splitlines() == ["of another target", *names]


def pytest_arguments(target: str) -> list[str]:
    """Return the arguments that a target of the Makefile has for pytest."""
    # Variables of the make that runs this test would count for that one.
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    dry = subprocess.run(
        ["make", "--dry-run", target],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    )
    words = shlex.split(dry.stdout.splitlines()[-1].removeprefix("TIDELOG_PURE=1 "))
    return words[1:]


def test_ci_runs_each_target_and_each_test_belongs_to_one_of_them() -> None:
    lines = (ROOT / ".ci/run").read_text().splitlines()
    for target, expression in zip(TARGETS, ("not long", "not long", "long"), strict=True):
        (line,) = [each for each in lines if each.endswith(f" python3 .ci/run_tests.py {target}")]
        assert line.startswith(f"check {target} ") or (
            line.startswith(f"start {target} ") and f"show {target}" in lines
        )
        arguments = pytest_arguments(target)
        assert arguments[:2] == ["-m", "pytest"]
        assert arguments[arguments.index("-m", 2) + 1] == expression
        assert f"cache_dir=.pytest_cache/{target}" in arguments


def test_long_tests_are_sought_in_every_file_that_has_some() -> None:
    marked = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("*.py")
        if re.search(r"mark\.long\b", file.read_text())
    }
    assert marked
    assert marked <= set(pytest_arguments("test-long"))


CASES: dict[str, tuple[list[tuple[int, list[str], str]], int]] = {
    "all pass": ([(0, [], "")], 0),
    "two pass when run again": ([(1, ["t::1", "t::2"], ""), (0, [], FIRST + SECOND + OTHER)], 0),
    "one fails again": ([(1, ["t::1", "t::2"], ""), (1, ["t::2"], FIRST + SECOND)], 1),
    "one fails again, and the status is wrong": ([(1, ["t::1"], ""), (0, ["t::1"], FIRST)], 1),
    "one was not run again": ([(1, ["t::1", "t::2"], ""), (0, [], FIRST + OTHER)], 1),
    "one was skipped": ([(1, ["t::1", "t::2"], ""), (0, [], FIRST + SKIPPED)], 1),
    "none was run again": ([(1, ["t::1"], ""), (5, [], "")], 1),
    "too many": ([(1, ["t::1", "t::2", "t::3", "t::4"], ""), (0, [], FIRST + SECOND + OTHER)], 1),
    "a file without tests": ([(1, ["test_file.py"], ""), (0, [], FIRST)], 1),
    "interrupted": ([(2, ["t::1"], ""), (0, [], FIRST)], 1),
    "no test failed": ([(1, [], ""), (0, [], "")], 1),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_fails_unless_each_failed_test_passes_when_run_again(tmp_path: Path, case: str) -> None:
    runs, status = CASES[case]
    (tmp_path / "runs").write_text(json.dumps(runs))
    (tmp_path / "fake.py").write_text(FAKE_PYTEST)
    ended = run_tests(tmp_path, FAKE)
    assert ended.returncode == status, ended
    failed_once = runs[0][1] if status == 0 else []
    assert (tmp_path / "unstable").exists() == bool(failed_once)

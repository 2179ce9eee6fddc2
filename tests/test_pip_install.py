"""`scripts/pip_install.sh`, by which make installs: it says what it does, and all of it if that fails."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.deadlines import DEADLINE_S

SCRIPT = Path(__file__).parents[1] / "scripts/pip_install.sh"


def install(folder: Path, exit_code: int) -> subprocess.CompletedProcess[str]:
    """Run it with what stands for a Python with pip."""
    python = folder / "python"
    python.write_text(
        "#!/bin/sh\n"
        'echo "called with $*"\n'
        "echo 'Collecting trio>=0.27 (from tidelog==0.1)'\n"
        "echo '  Downloading trio-0.30-py3-none-any.whl (499 kB)'\n"
        "echo 'Requirement already satisfied: attrs'\n"
        "echo 'Installing collected packages: trio, tidelog'\n"
        "echo 'ERROR: no space' >&2\n"
        f"exit {exit_code}\n"
    )
    python.chmod(0o755)
    return subprocess.run(
        [SCRIPT, python, "--editable", ".[dev]"], capture_output=True, text=True, timeout=DEADLINE_S
    )


def test_pip_install_names_what_is_fetched_and_installed(tmp_path: Path) -> None:
    done = install(tmp_path, 0)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "  trio>=0.27",
        "      Downloading trio-0.30-py3-none-any.whl (499 kB)",
        "  Installing collected packages",
    ]


def test_pip_install_shows_everything_of_a_failure(tmp_path: Path) -> None:
    done = install(tmp_path, 3)
    assert done.returncode == 1
    assert "called with -m pip install --progress-bar off --editable .[dev]\n" in done.stderr
    assert "ERROR: no space" in done.stderr

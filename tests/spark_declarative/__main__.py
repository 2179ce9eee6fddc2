"""Run the examples of the page with a broker of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

from tests.docs.examples import Example, check, examples_of, run_example, run_example_on
from tests.kernel.cli.running import clean_environment
from tests.peers import running_tidelog

ADDRESS = "127.0.0.1:9092"


def main() -> None:
    """End with 0 when all examples do what the page says."""
    started = time.monotonic()
    with TemporaryDirectory(prefix="tidelog-declarative-") as name, running_tidelog(Path(name)) as broker:
        folder = Path(name) / "project"
        folder.mkdir()
        for example in examples_of("spark-declarative.md"):
            there = attrs.evolve(example, text=example.text.replace(ADDRESS, broker.bootstrap))
            if "tidelog topics" in there.text:
                run_example_on(there, broker.bootstrap, folder)
            elif "tidelog spark" in there.text:
                run_for_as_long_as_it_takes(there, folder)
            else:
                run_example(there, folder)
            print(f"{time.monotonic() - started:7.1f} s  {example}", flush=True)


def run_for_as_long_as_it_takes(example: Example, folder: Path) -> None:
    """Several JVMs, one after the other: what they log is shown."""
    environment = clean_environment()
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-eu", "-c", example.text],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    print(done.stdout, end="")
    check(done.stdout, example)


if __name__ == "__main__":
    main()

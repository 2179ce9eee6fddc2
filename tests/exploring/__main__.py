"""`make explore MINUTES=n`: pass after pass over the property tests, each with a seed of its own.

Failing examples stay in `.hypothesis`, so that the next run of the test begins with them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

_FAILED = 1
_SHOWN = 15


def main() -> int:
    """Return 1 as soon as a test failed, else 0 when the time is up."""
    parser = argparse.ArgumentParser(prog="make explore")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, help="of the first pass, to repeat it")
    parser.add_argument("tests", nargs="*", default=["tests"])
    options = parser.parse_args()
    until = time.time() + 60 * options.minutes
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    counts: Counter[str] = Counter()
    failed = False
    while time.time() < until and not failed:
        print(f"seed {seed}", flush=True)
        failed = _explore(seed, until, options.tests, counts) == _FAILED
        seed = random.Random(seed).randrange(1 << 32)
    print(f"{sum(counts.values())} examples of {len(counts)} property tests; the fewest:")
    for test, count in sorted(counts.items(), key=lambda pair: pair[1])[:_SHOWN]:
        print(f"{count:8} {test}")
    return int(failed)


def _explore(seed: int, until: float, tests: list[str], counts: Counter[str]) -> int:
    """Make one pass; the exit status of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.exploring.plugin", "--tb=short"]
        own = [f"--explore-seed={seed}", f"--explore-until={until}", f"--explore-counts={path}"]
        done = subprocess.run(
            [*command, *own, f"--hypothesis-seed={seed}", *tests],
            env={**os.environ, "HYPOTHESIS_PROFILE": "explore"},
            check=False,
        )
        counts.update(json.loads(path.read_text()))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

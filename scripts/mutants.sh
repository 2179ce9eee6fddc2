#!/usr/bin/env bash
# mutants.sh TOOL PYTHON MODULE [TEST ...]: cosmic-ray's mutants of a module, each against tests that should notice.
# Prints those that all tests let live, and the share that was tried; AT_MOST=30 tries a sample. The checkout stays as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

tool=$PWD/$1 python=$PWD/$2 module=$3
shift 3
[ -f "$module" ] || { echo "MODULE=$module is no file of this checkout, such as kernel/leader_epochs.py" >&2; exit 2; }
# The tests of a module: the file that mirrors it, else the folder that mirrors its own.
mirror=tests/$(dirname "$module")
[ $# -gt 0 ] || { [ -f "$mirror/test_$(basename "$module")" ] && set -- "$mirror/test_$(basename "$module")" || set -- "$mirror"; }

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | xargs -0 cp --parents --no-dereference --target-directory "$copy"
cd "$copy"
# What is compiled would not notice; neither would it matter which example of many fails first.
export TIDELOG_PURE=1 PYTHONPATH=src HYPOTHESIS_PROFILE=mutants TEST_DEADLINE_S=${TEST_DEADLINE_S:-30} CI=true
run="$python -m pytest -q -x -m 'not long' -p no:cacheprovider $*"
cat >mutants.toml <<EOF
[cosmic-ray]
module-path = "$module"
timeout = ${TIMEOUT:-120}
excluded-modules = []
test-command = "$run"
[cosmic-ray.distributor]
name = "local"
EOF

"$tool/bin/cosmic-ray" init mutants.toml mutants.sqlite
"$tool/bin/python" - mutants.sqlite "${AT_MOST:-0}" <<'EOF'
"""Leave a sample of the mutants: always the same ones, spread over the module at random."""
import random, sqlite3, sys

session, at_most = sqlite3.connect(sys.argv[1]), int(sys.argv[2])
jobs = [job for (job,) in session.execute("SELECT job_id FROM work_items ORDER BY job_id")]
for job in random.Random(0).sample(jobs, max(len(jobs) - at_most, 0) if at_most else 0):
    session.execute("DELETE FROM mutation_specs WHERE job_id = ?", (job,))
    session.execute("DELETE FROM work_items WHERE job_id = ?", (job,))
session.commit()
EOF
echo "Without a mutant: ${run#"$python -m "}"
"$tool/bin/cosmic-ray" baseline mutants.toml || { echo "The tests fail without a mutant." >&2; exit 2; }
"$tool/bin/cosmic-ray" exec mutants.toml mutants.sqlite
"$tool/bin/cr-report" --surviving-only --show-diff mutants.sqlite
# The status: 0 if none is left.
"$tool/bin/cr-rate" --fail-over 0.001 mutants.sqlite >/dev/null

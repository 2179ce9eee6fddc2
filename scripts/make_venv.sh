#!/usr/bin/env bash
# make_venv.sh FOLDER: creates a virtual environment with the first Python 3.11 or newer that works here.
# PYTHON=/path/to/python chooses one by hand.
set -euo pipefail

folder=$1
candidates=(python3 python3.14 python3.13 python3.12 python3.11 python)
[ -z "${PYTHON:-}" ] || candidates=("$PYTHON")

without_venv=
for python in "${candidates[@]}"; do
  # Version managers leave commands on PATH that name a Python which is not active, so only a run tells.
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    without_venv=$python
    continue
  fi
  echo "Creating $folder with $("$python" --version) ($(command -v "$python"))"
  "$python" -m venv --clear "$folder"
  exit 0
done

{
  if [ -n "$without_venv" ]; then
    version=$("$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "$without_venv is new enough but cannot create virtual environments: its venv module is missing."
    echo "On Debian and Ubuntu: apt-get install python$version-venv"
  else
    echo "tidelog needs Python 3.11 or newer, and none was found. Looked for: ${candidates[*]}"
    echo "On Debian and Ubuntu: apt-get install python3 python3-venv. Or name one: make PYTHON=/path/to/python3.12 ..."
  fi
} >&2
exit 1

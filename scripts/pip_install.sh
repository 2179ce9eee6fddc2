#!/usr/bin/env bash
# pip_install.sh PYTHON ARGUMENT...: `pip install`, with a line for each package that is fetched, built or installed.
# If it fails all that pip has said is shown.
set -euo pipefail
python=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$python" -m pip install --progress-bar off "$@" 2>&1 | tee "$log" | awk '
  /^ *Collecting / { print "  " $2; fflush() }
  /^ *Downloading / { print "    " $0; fflush() }
  /^ *(Building|Preparing|Installing (build|collected)) / { sub(/: .*/, ""); print "  " $0; fflush() }
' || {
  cat "$log" >&2
  exit 1
}

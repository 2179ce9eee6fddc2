#!/usr/bin/env bash
# Prepares a release: `scripts/release.sh PYTHON VERSION`, or `make release VERSION=0.1.0`.
# It writes the changelog and the version, and builds and tries what is published. Nothing is committed, tagged or sent.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 version=$2

[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?$ ]] || {
  echo "make release VERSION=0.1.0: '$version' is no version" >&2
  exit 2
}
[ -z "$(git status --porcelain)" ] || {
  echo "There are changes that are not committed: commit them, or put them aside." >&2
  exit 1
}
[ -z "$(git tag --list "v$version")" ] || {
  echo "There is a tag v$version already." >&2
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m towncrier build --yes --version "$version"
sed -i.old "s/^__version__: Final = .*/__version__: Final = \"$version\"/" src/tidelog/__init__.py
rm src/tidelog/__init__.py.old

echo "Building in an environment of its own"
"$python" -m venv "$work/build"
"$work/build/bin/python" -m pip install --quiet build
rm -rf dist
"$work/build/bin/python" -m build --outdir dist . >"$work/build.log" 2>&1 || {
  tail -n 40 "$work/build.log" >&2
  exit 1
}

echo "Trying the wheel in a fresh environment"
"$python" -m venv "$work/fresh"
"$work/fresh/bin/python" -m pip install --quiet dist/tidelog-"$version"-*.whl
cd "$work"
fresh/bin/tidelog --version | grep -F "$version"
# shellcheck disable=SC2016 # the variable is that of the inner shell
PATH="$work/fresh/bin:$PATH" fresh/bin/tidelog test-broker --topic orders --ttl 60 -- sh -c \
  'tidelog produce orders tea -q -b "$KAFKA_BOOTSTRAP_SERVERS" && tidelog consume orders -q -b "$KAFKA_BOOTSTRAP_SERVERS"' |
  grep -x tea
cd - >/dev/null
ls -l dist
echo "Release $version is prepared: read the changes, commit them, and tag them as v$version."

#!/usr/bin/env bash
# Installs the programs that the tests drive as real clients: kcat, MIT's KDC, and Java with Maven for the Java clients,
# Apache Kafka and ZooKeeper, whose jars Maven fetches when a test asks for them. Tests of Kerberos also need the extra
# `kerberos`, which is compiled with the headers of libkrb5-dev.
# Where it may not install (not root, or no apt-get) it says what to install; tests without their program are skipped.
set -euo pipefail

missing=()
command -v kcat >/dev/null || missing+=(kcat)
command -v javac >/dev/null || missing+=(default-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
[ -x /usr/sbin/krb5kdc ] || missing+=(krb5-kdc)
[ -x /usr/sbin/kadmin.local ] || missing+=(krb5-admin-server)
command -v kinit >/dev/null || missing+=(krb5-user)
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "Installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
  exit 0
fi

echo "Missing for the tests with real clients: ${missing[*]} (names of Debian packages)." >&2
echo "Install them with: sudo apt-get install ${missing[*]}" >&2
if [ -n "${CI:-}" ]; then
  exit 1
fi
echo "Going on without: the tests that need them are skipped and say so." >&2

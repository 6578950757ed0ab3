#!/bin/sh
# What a stranger does: clone (HEAD, as committed), make demo, make test; then both must be quick to start again.
set -eu
cd "$(dirname "$0")/.."
clone=$(mktemp -d "${TMPDIR:-/tmp}/clash-fresh.XXXXXX")
trap 'rm -rf "$clone"' EXIT INT TERM
git clone --quiet --no-hardlinks . "$clone/clash"
cd "$clone/clash"
unset JAVA_HOME VIRTUAL_ENV PYTHONPATH MAKEFLAGS MAKELEVEL 2>/dev/null || true
make demo
make test
start=$(date +%s)
make setup
seconds=$(($(date +%s) - start))
if [ "$seconds" -gt 5 ]; then echo "the second set-up took $seconds s" >&2; exit 1; fi
if [ -n "$(git status --porcelain)" ]; then echo "the clone is not clean afterwards:" >&2; git status --short >&2; exit 1; fi
echo "fresh clone: demo and tests pass, second set-up in $seconds s"

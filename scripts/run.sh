#!/bin/sh
# scripts/run.sh COMMAND …: runs it in the set-up environment, with .venv first on the PATH and JAVA_HOME where there is a Java.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh
if home=$(scripts/java.sh find); then
    JAVA_HOME=$home
    export JAVA_HOME
fi
PATH=$PWD/.venv/bin:$PATH
export PATH
exec "$@"

#!/bin/sh
# Everything that `make` targets need: .venv with the pinned packages and this one (editable), and Java.
# Done once; again only when pyproject.toml, constraints.txt or the place of the clone change. PYTHON=… picks the interpreter.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

venv=.venv
stamp=$venv/.clash-setup
wanted="$(cat pyproject.toml constraints.txt | cksum) $(pwd -P)"

python_ok() { "$@" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    for python in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
        if python_ok "$python"; then command -v "$python"; return 0; fi
    done
    say "Python 3.11 or newer was not found (looked for ${PYTHON:-python3.13, python3.12, python3.11, python3})."
    say "  Install it, or name yours: make PYTHON=/path/to/python3.12"
    return 1
}

# A .venv that was copied from elsewhere, or whose Python has gone, is of no use: start again.
venv_ok() {
    python_ok $venv/bin/python || return 1
    $venv/bin/python -m pip --version >/dev/null 2>&1 || return 1
    [ ! -f $stamp ] || [ "$(sed 's/^[0-9]* [0-9]* //' $stamp)" = "$(pwd -P)" ]
}

make_venv() {
    python=$(find_python)
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        # Debian keeps this part of Python in a package of its own
        version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
        apt_install "$version-venv" python3-venv || true
        if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            say "$python has no venv module, and it could not be installed from here."
            say "  Install it (Debian, Ubuntu: sudo apt-get install $version-venv), or name another Python: make PYTHON=…"
            return 1
        fi
    fi
    say "making $venv with $("$python" --version) …"
    rm -rf $venv
    "$python" -m venv $venv
}

if [ -f $stamp ] && [ "$(cat $stamp)" = "$wanted" ] && [ -x $venv/bin/clash ] && python_ok $venv/bin/python; then exit 0; fi

venv_ok || make_venv
rm -f $stamp
say "installing the pinned packages (the first time this takes a few minutes: PySpark alone is 450 MB) …"
# pip and the build tool first, so that they are the pinned ones and nothing is built with whatever is newest today
pip="$venv/bin/python -m pip --disable-pip-version-check"
$pip install --quiet --upgrade --constraint constraints.txt pip setuptools
$pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
scripts/java.sh ensure >/dev/null
printf '%s\n' "$wanted" >$stamp
say "set up."

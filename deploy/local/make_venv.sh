#!/bin/sh
# Make .venv from a lock file: sh deploy/local/make_venv.sh requirements.lock
#
# Does nothing when .venv already holds exactly this. A stamp says so, written last; a mark that an installation has begun
# stands until it has ended, so that one which was broken off is never trusted but made anew.
set -eu

lock=$1
venv=.venv
python=${PYTHON:-python3}
stamp=$venv/$lock.stamp
begun=$venv/.installing

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "lucyd: $*"
    exit 1
}

wanted=$(cat "$lock" pyproject.toml | cksum)" $(pwd)"

if [ -f "$stamp" ] && [ ! -e "$begun" ] && [ "$(cat "$stamp")" = "$wanted" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    exit 0
fi

if [ -e "$begun" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    command -v "$python" >/dev/null 2>&1 ||
        fail "$python was not found: install Python 3.11 or newer, or name it with PYTHON=/path/to/python3"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "Python 3.11 or newer is needed and $python is $("$python" -V 2>&1 | cut -d' ' -f2): name a newer one with PYTHON=/path/to/python3"
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python can't make virtual environments: install python3-venv (Debian, Ubuntu: apt install python3-venv)"
    if [ -e "$venv" ]; then
        # Moved away first: a removal that is broken off must not leave something that looks like an environment.
        mkdir -p build
        mv "$venv" "build/old-venv.$$"
        rm -rf build/old-venv.* 2>/dev/null || :
    fi
    mkdir "$venv"
    : >"$begun"
    said=$("$python" -m venv "$venv" 2>&1) || fail "$python could not make $venv: $said"
fi

: >"$begun"
rm -f "$stamp"
say "installing dependencies (once, about a minute) ..."
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-input --root-user-action=ignore \
    --require-hashes -r "$lock" || fail "the dependencies of $lock could not be installed (see above); run make again"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-input --root-user-action=ignore \
    --no-deps --no-build-isolation -e . || fail "Lucyd itself could not be installed in $venv (see above); run make again"
printf '%s\n' "$wanted" >"$stamp"
rm -f "$begun"

# shellcheck shell=sh
# Sourced by the scripts in tools/: installs what is missing and makes .venv. Nothing is done twice, so a second
# run costs a second. Needs sh and a Debian-like system, and root or sudo only while a system package is missing.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
program=tools/$(basename -- "$0")
venv=$root/.venv

say() {
    printf '%s: %s\n' "$program" "$*" >&2
}

fail() {
    say "$*"
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        fail "this needs root and there is no sudo: run as root: $*"
    fi
}

# want PACKAGES TEST...: remember the packages as missing unless the test passes.
want() {
    packages=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $packages"
}

# Set $python to an interpreter of 3.11 or newer.
find_python() {
    for python in python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && return 0
    done
    return 1
}

# Wheels are built against the interpreter's headers, and `venv` puts pip in with ensurepip; Debian ships both apart.
python_builds() {
    "$python" -c '
import ensurepip, os, sys, sysconfig, venv
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' >/dev/null 2>&1
}

apt_install() {
    command -v apt-get >/dev/null 2>&1 || fail "missing here:$* - this script installs with apt-get only; install these and run it again"
    say "installing system packages:$(printf ' %s' "$@")"
    apt="env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300"
    # shellcheck disable=SC2086
    as_root $apt install -y --no-install-recommends "$@" >/dev/null 2>&1 && return 0
    # shellcheck disable=SC2086
    as_root $apt update >/dev/null || fail "apt-get update failed: see above"
    # shellcheck disable=SC2086
    as_root $apt install -y --no-install-recommends "$@" >/dev/null || fail "apt-get cannot install: $*"
}

install_system_packages() {
    missing=
    want fuse3 command -v fusermount3
    want "libfuse3-dev pkg-config" pkg-config --exists fuse3
    want gcc command -v gcc
    want libc6-dev test -e /usr/include/stdio.h
    want git command -v git
    want acl command -v setfacl
    want attr command -v setfattr
    find_python && want "python3-dev python3-venv" python_builds
    find_python || missing="$missing python3 python3-dev python3-venv"
    # shellcheck disable=SC2086
    [ -z "$missing" ] || apt_install $missing
    find_python || fail "Python 3.11 or newer is needed and this system's packages have none: install one and run this again"
    python_builds || fail "$python lacks its headers or ensurepip: install them, or put another Python first in PATH"
}

# make_venv EXTRA: .venv with the package (editable) and one of its extras. The stamp names everything it was made of.
make_venv() {
    stamp=$venv/.installed-$1
    made_of=$(cksum "$root/pyproject.toml" "$root/tools/lib/setup.sh")
    if "$venv/bin/python" -c '' >/dev/null 2>&1; then
        [ "$(cat "$stamp" 2>/dev/null)" = "$made_of" ] && return 0
    else
        say "making $venv with $python"
        "$python" -m venv --clear "$venv" || fail "cannot make $venv"
    fi
    say "installing the Python packages of extra '$1' into $venv"
    "$venv/bin/python" -m pip install -qq --editable "$root[$1]" || fail "pip failed: see above"
    printf '%s\n' "$made_of" >"$stamp"
}

setup() {
    install_system_packages
    make_venv "$1"
}

require_fuse() {
    [ -c /dev/fuse ] || as_root modprobe fuse >/dev/null 2>&1 || true
    [ -c /dev/fuse ] || fail "/dev/fuse is missing, so nothing can be mounted: run 'modprobe fuse', or start the container with --device /dev/fuse --cap-add SYS_ADMIN"
}

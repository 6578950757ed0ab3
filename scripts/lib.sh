# Shared by the set-up scripts: sourced, never run. POSIX sh.

say() { printf '%s\n' "$*" >&2; }

# Debian or a relative of it, and we may install packages without a password?
can_apt() {
    command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" = 0 ] || sudo -n true >/dev/null 2>&1
}

as_root() { if [ "$(id -u)" = 0 ]; then env "$@"; else sudo -n env "$@"; fi; }

# apt_install A B C: the first of these packages that can be installed, quietly; fails if none can.
apt_install() {
    can_apt || return 1
    as_root apt-get update -qq >&2 || say "apt-get update failed; trying with the package lists at hand"
    for package in "$@"; do
        say "installing $package …"
        if as_root DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1; then return 0; fi
    done
    return 1
}

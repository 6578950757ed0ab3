#!/bin/sh
# Finds a Java 17 or newer and prints its home on stdout; everything else goes to stderr.
#
#   scripts/java.sh find      look only; exit 1, silently, when there is none
#   scripts/java.sh ensure    look; where the machine allows it, install; else say what to install and exit 1
#
# Looked at in this order: $JAVA_HOME, `java` on the PATH, $JVM_ROOTS (/usr/lib/jvm and macOS's folder): 17 and 21 first,
# which Spark 4 is tested with.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

wanted=17
jvm_roots=${JVM_ROOTS-/usr/lib/jvm /Library/Java/JavaVirtualMachines}

# major HOME: its Java version, from the file `release` (no JVM start), or from Java itself
major() {
    [ -x "$1/bin/java" ] || return 1
    version=$(sed -n 's/^JAVA_VERSION="\{0,1\}\([0-9._]*\).*/\1/p' "$1/release" 2>/dev/null || true)
    [ -n "$version" ] || version=$("$1/bin/java" -version 2>&1 | sed -n 's/.* version "\([0-9._]*\).*/\1/p' | head -n 1)
    version=${version#1.} # Java 8 calls itself 1.8
    printf '%s\n' "${version%%[._]*}"
}

good() {
    found=$(major "$1") && [ -n "$found" ] && [ "$found" -ge "$wanted" ] 2>/dev/null
}

# The home of the `java` on the PATH: behind its symbolic links, or, for a wrapper script, what Java itself says.
home_on_path() {
    java=$(command -v java) || return 1
    home=$(dirname "$(dirname "$(readlink -f "$java")")")
    if [ ! -f "$home/release" ]; then
        home=$(java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p' | head -n 1)
    fi
    [ -n "$home" ] && printf '%s\n' "$home"
}

find_java() {
    if [ -n "${JAVA_HOME:-}" ] && good "$JAVA_HOME"; then printf '%s\n' "$JAVA_HOME"; return 0; fi
    if home=$(home_on_path) && good "$home"; then printf '%s\n' "$home"; return 0; fi
    for root in $jvm_roots; do
        for home in "$root"/*17* "$root"/*21* "$root"/*; do
            [ -d "$home/Contents/Home" ] && home=$home/Contents/Home
            if good "$home"; then printf '%s\n' "$home"; return 0; fi
        done
    done
    return 1
}

case ${1:-ensure} in
    find) find_java ;;
    ensure)
        find_java && exit 0
        if can_apt; then
            as_root mkdir -p /usr/share/man/man1 # slim images lack it, and Java's package wants to link into it
            apt_install openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless && find_java && exit 0
        fi
        say "Java $wanted or newer was not found, and could not be installed from here."
        say "  Install one (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless; Fedora: sudo dnf install java-21-openjdk-headless;"
        say "  macOS: brew install openjdk@17), or set JAVA_HOME to one. Spark needs it; planning does not."
        exit 1
        ;;
    *) say "usage: scripts/java.sh [find|ensure]"; exit 2 ;;
esac

#!/usr/bin/env bash
# Installs NFS clients of others from their registries, each at one version and once, with the
# driver of each, below ${CARGO_TARGET_DIR:-target}/strangers/clients.
#
# usage: tests/strangers/clients/install.sh NAME...
#        tests/strangers/clients/install.sh --list      names and versions, one client a line
#
# The exit status is 1 when one cannot be had; what is missing for it is named.
set -euo pipefail
drivers=$(cd "$(dirname "$0")/drivers" && pwd)
cd "$drivers/../../../.."
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/strangers/clients")

TABLE='
pynfsclient    0.1.5               pip
anfs           0.0.3               pip
nfs-rs         0.8.7               pip
go-nfs-client  2025-10-22          go
nfs3_client    0.9.1               cargo
ecs-nfs-client 1.1.0               maven
libnfs         4.0.0               debian
'

say() { printf 'strangers: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }
need() { command -v "$1" >/dev/null || die "$2 needs $1"; }

# Programs of Python, each in an environment of its own with the versions of NAME.txt.
install_pip() { # NAME
    need python3 "$1"
    local python=$folder/$1/bin/python
    [ -x "$python" ] || python3 -m venv "$folder/$1" || die "$1 needs python3-venv"
    "$python" -c 'import xdrlib' 2>/dev/null || [ "$1" != pynfsclient ] ||
        die "$1 needs a Python before 3.13, which has the module xdrlib"
    "$python" -m pip install -q --disable-pip-version-check -r "$drivers/$1.txt" ||
        die "$1 cannot be installed"
    cp "$drivers/driver-$1.py" "$drivers/cells.py" "$folder/$1/"
    run_with "$1" "$python" "$folder/$1/driver-$1.py"
}

install_go() { # NAME
    need go "$1"
    mkdir -p "$folder/$1"
    (cd "$drivers/go" && go build -o "$folder/$1/driver" .) >&2 || die "$1 cannot be built"
    run_with "$1" "$folder/$1/driver"
}

install_cargo() { # NAME
    need cargo "$1"
    cargo build -q --locked --manifest-path "$drivers/rust/Cargo.toml" \
        --target-dir "$folder/cargo" >&2 || die "$1 cannot be built"
    mkdir -p "$folder/$1"
    run_with "$1" "$folder/cargo/debug/nfs3-client-driver"
}

install_maven() { # NAME
    need mvn "$1" && need javac "$1"
    mkdir -p "$folder/$1/lib"
    [ -e "$folder/$1/lib/nfs-client-1.1.0.jar" ] ||
        mvn -q -B -f "$drivers/java/pom.xml" dependency:copy-dependencies \
            -DoutputDirectory="$folder/$1/lib" >&2 || die "$1 cannot be installed"
    javac -d "$folder/$1" -cp "$folder/$1/lib/*" "$drivers/java/Driver.java" ||
        die "$1 cannot be built"
    run_with "$1" java -Xmx256m -cp "$folder/$1/lib/*:$folder/$1" Driver
}

# What the distribution has; another version is another client.
install_debian() { # NAME
    need nfs-ls "$1 (package libnfs-utils)" && need python3 "$1"
    local version
    version=$(dpkg-query -W -f '${Version}' libnfs-utils 2>/dev/null) || version=unknown
    [ "${version%%-*}" = 4.0.0 ] || die "$1: version $version, and not 4.0.0"
    mkdir -p "$folder/$1"
    cp "$drivers/driver-$1.py" "$drivers/cells.py" "$folder/$1/"
    run_with "$1" python3 "$folder/$1/driver-$1.py"
}

run_with() { # NAME COMMAND...
    printf '#!/bin/sh\nexec' >"$folder/$1/run"
    printf " '%s'" "${@:2}" >>"$folder/$1/run"
    printf ' "$@"\n' >>"$folder/$1/run"
    chmod +x "$folder/$1/run"
}

[ $# -gt 0 ] || die 'which client?'
if [ "$1" = --list ]; then
    awk 'NF { print $1, $2 }' <<<"$TABLE"
    exit
fi
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
for name in "$@"; do
    how=$(awk -v name="$name" '$1 == name { print $3 }' <<<"$TABLE")
    [ -n "$how" ] || die "no client '$name'"
    # What is there is built again only when its driver has changed.
    if [ ! -e "$folder/$name/run" ] || [ -n "$(find "$drivers" -newer "$folder/$name/run")" ]; then
        "install_$how" "$name"
    fi
done
echo "$folder"

#!/usr/bin/env bash
# Sees to it that there is a program of unfs3 to measure beside, and prints its path. When there
# is none to be had it says why, and the exit status is 1.
#
# usage: scripts/unfs3.sh
#
# In this order: the program that UNFSD names, one that is installed, one that was built before, the
# package of the distribution, and the release below, built in target/unfs3. UNFS3_ARCHIVE names
# its archive where it cannot be downloaded; it must be the same one.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=0.11.0
URL=https://github.com/unfs3/unfs3/releases/download/unfs3-$VERSION/unfs3-$VERSION.tar.gz
SHA256=42ef63cd949b65a4ead30bee269703059a8c4269bef6aa1533215ad1c2a26d6f

PATH=$PATH:/usr/sbin:/sbin
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/unfs3")
built=$folder/unfs3-$VERSION/unfsd

say() { printf 'unfs3: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

from_package() {
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return
    DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 \
        install -y --no-install-recommends unfs3 >/dev/null 2>&1
}

fetch() { # ARCHIVE
    if [ -n "${UNFS3_ARCHIVE-}" ]; then
        cp "$UNFS3_ARCHIVE" "$1"
    else
        say "downloading $URL"
        curl -fsSL --connect-timeout 20 --max-time 300 -o "$1" "$URL"
    fi
}

build() {
    local archive=$folder/unfs3-$VERSION.tar.gz
    rm -rf "$folder"
    mkdir -p "$folder"
    fetch "$archive" || die 'its source cannot be had'
    sha256sum --quiet -c <<<"$SHA256  $archive" >&2 || die "$archive is not the release $VERSION"
    scripts/packages.sh unfs3 || die 'what it is built with is missing'
    tar -C "$folder" -xzf "$archive"
    if ! (cd "$folder/unfs3-$VERSION" && ./configure && make) >"$folder/log" 2>&1; then
        tail -n 20 "$folder/log" >&2
        die "it cannot be built; see $folder/log"
    fi
}

if [ -n "${UNFSD-}" ]; then
    [ -x "$UNFSD" ] || die "$UNFSD is no program"
    realpath "$UNFSD"
elif command -v unfsd; then
    :
elif [ -x "$built" ]; then
    echo "$built"
elif from_package && command -v unfsd; then
    :
else
    build
    echo "$built"
fi

#!/usr/bin/env bash
# Sees to it that there is one of the servers of the matrix, and prints the path of its program. It
# is made once, of pinned versions, in target/strangers.
#
# usage: tests/strangers/servers/build.sh NAME
#
# Exit status 77, with a reason: it cannot be had on this machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."
store=$(realpath -m "${CARGO_TARGET_DIR:-target}/strangers")
NFS3_SERVER_VERSION=0.2.3 # of the program cargo-nfs3-server, with nfs3_server 0.11.1

missing() { echo "$*" >&2; exit 77; }

go_program() { # NAME
    command -v go >/dev/null || missing 'Go 1.26 is missing'
    go build -C "$here/go" -trimpath -o "$store/bin/$1" "./$1" >&2
    echo "$store/bin/$1"
}

rust_program() { # NAME
    cargo build --quiet --release --locked --manifest-path "$here/rust/Cargo.toml" \
        --target-dir "$store/rust" --bin "$1" >&2
    echo "$store/rust/release/$1"
}

nfs3_server() {
    local stamp=$store/nfs3-server-$NFS3_SERVER_VERSION
    if [ ! -e "$stamp" ]; then
        # Optimised a little: the whole of it is built in half the time, and is fast enough.
        CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off cargo install --quiet \
            --locked --root "$store" --version "$NFS3_SERVER_VERSION" cargo-nfs3-server >&2
        : >"$stamp"
    fi
    echo "$store/bin/cargo-nfs3-server"
}

mkdir -p "$store/bin"
case ${1-} in
    go-nfs) go_program gonfs ;;
    rclone) go_program rclone ;;
    nfsserve) rust_program nfsserve-mirror ;;
    nfs-mamont) rust_program mamont-mirror ;;
    nfs3_server) nfs3_server ;;
    unfs3) scripts/unfs3.sh || exit 77 ;;
    nfs-ganesha)
        PATH=$PATH:/usr/sbin:/sbin
        command -v ganesha.nfsd || missing 'the package nfs-ganesha is missing'
        ;;
    *) echo "unknown server '${1-}'" >&2; exit 2 ;;
esac

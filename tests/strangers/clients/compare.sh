#!/usr/bin/env bash
# The same drivers on other servers: what the document says of Pagewell is measured by that.
#
# usage: tests/strangers/clients/compare.sh nfs-ganesha|unfs3 [NAME...]
#
# Prints rows as in docs/INTEROPERABILITY.md, of a directory and of one that cannot be written. By
# hand, on a machine that has the server; unfs3 is found by scripts/unfs3.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../../.." && pwd)
cd "$repository"
. "$here/lib.sh"
[ $# -gt 0 ] || { echo 'compare: which server?' >&2; exit 2; }
PATH=$PATH:/usr/sbin:/sbin
if [ -z "${STRANGERS_INSIDE-}" ]; then
    mapfile -t all < <("$here/install.sh" --list | cut -d ' ' -f 1)
    [ $# -gt 1 ] || set -- "$1" "${all[@]}"
    INSTALLED=$("$here/install.sh" "${@:2}")
    [ "$1" != unfs3 ] || UNFSD=$(scripts/unfs3.sh)
    export INSTALLED UNFSD=${UNFSD-}
fi
enter_own_network "$here/compare.sh" "$@"
server=$1
shift

die() { echo "compare: $*" >&2; exit 1; }
. scripts/ganesha.sh
prepare_network
# It is gone with the name space, and not as slow as a busy disk.
scratch=$(mktemp -d)
trap 'end_started; umount -l "$scratch"; rmdir "$scratch"' EXIT
mount -t tmpfs none "$scratch"
make_tree "$scratch/tree" "$@"
mkdir "$scratch/fixed"
mount -t tmpfs none "$scratch/fixed"
cp -a "$scratch/tree/." "$scratch/fixed"
mount -o remount,ro "$scratch/fixed"

rows() { # EXPORT-OF-SERVER FOLDER EXPORT CLIENT...
    local path=$1 folder=$2 export=$3 client
    shift 3
    for client in "$@"; do
        run_driver "$client" 127.0.0.1 "$path" "$scratch/$client-$export"
        [ "$export" != dir ] || check_cells "$folder/$client"
        [ -z "${STRANGERS_LOGS-}" ] || cat "$scratch/$client-$export" >&2
        row "$client" "$(version_of "$client")" "$export"
    done
}

case $server in
    nfs-ganesha)
        for export in dir fixed; do
            folder=$scratch/$([ $export = dir ] && echo tree || echo fixed)
            start_ganesha "$folder" "$scratch" 2049
            rows /shared "$folder" $export "$@"
            end_started
        done
        ;;
    unfs3)
        rpcbind -f >"$scratch/rpcbind.log" 2>&1 &
        started+=($!)
        wait_until 60 $! listens 111 || die 'rpcbind fails'
        printf '%s 127.0.0.1(%s,no_root_squash,insecure)\n' "$scratch/tree" rw "$scratch/fixed" ro \
            >"$scratch/exports"
        "$UNFSD" -d -e "$scratch/exports" -i "$scratch/unfsd.pid" >"$scratch/unfsd.log" 2>&1 &
        started+=($!)
        wait_until 60 $! listens 2049 || die 'unfs3 does not start'
        rows "$scratch/tree" "$scratch/tree" dir "$@"
        rows "$scratch/fixed" "$scratch/fixed" fixed "$@"
        ;;
    *) die "no server '$server'" ;;
esac

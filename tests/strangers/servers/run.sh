#!/usr/bin/env bash
# Measures Pagewell on other people's servers and compares with docs/INTEROPERABILITY.md.
#
# usage: tests/strangers/servers/run.sh [NAME...]      all servers when none is named
#
# Builds the program first, unless PAGEWELL names one. WRITE=1 writes what was measured into the
# tables instead. A server that cannot be had is named and counted, and fails nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
servers=(go-nfs rclone nfsserve nfs3_server nfs-mamont unfs3 nfs-ganesha)
# Ends what hangs; what is only slow, on a busy machine, is let be.
seconds_max=1800

say() { printf '%s\n' "$*"; }
[ "$(id -u)" = 0 ] || { say 'strangers, servers: skipped, this takes root'; exit 0; }
[ -e /dev/fuse ] || { say 'strangers, servers: skipped, there is no /dev/fuse'; exit 0; }
if [ -z "${PAGEWELL:-}" ]; then
    cargo build -q -p pagewell
    PAGEWELL=$(realpath -m "${CARGO_TARGET_DIR:-target}/debug/pagewell")
fi
export PAGEWELL

# In a network and a mount name space of its own.
inside='
. scripts/ganesha.sh
prepare_network
exec timeout --kill-after=10 "$1" python3 "$2/matrix.py" "$3" "$4" "$5"'

folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/strangers")
mkdir -p "$folder/results"
passed=0 failed=0 missing=()
[ $# = 0 ] || servers=("$@")
for name in "${servers[@]}"; do
    begun=$SECONDS
    status=0
    program=$("$here/build.sh" "$name" 2>"$folder/results/$name.log") || status=$?
    case $status in
        0) ;;
        77)
            say "NOT HERE $name: $(tail -n 1 "$folder/results/$name.log")"
            missing+=("$name")
            continue
            ;;
        *)
            say "FAILED $name: it cannot be built"
            tail -n 20 "$folder/results/$name.log"
            failed=$((failed + 1))
            continue
            ;;
    esac
    built=$((SECONDS - begun))
    # Beside the build, not in /tmp: that may be a tmpfs.
    work=$(mktemp -d "$folder/work.$name.XXXXXX")
    if unshare -n -m bash -euc "$inside" - "$seconds_max" "$here" "$name" "$program" "$work" \
        >"$folder/results/$name.tsv" 2>"$folder/results/$name.log" &&
        python3 "$here/table.py" ${WRITE:+--write} "$name" "$folder/results/$name.tsv"; then
        passed=$((passed + 1))
        say "ok $name ($((SECONDS - begun - built))s, built in ${built}s)"
    else
        failed=$((failed + 1))
        say "FAILED $name ($((SECONDS - begun - built))s)"
        tail -n 40 "$folder/results/$name.log" | sed 's/^/    /'
    fi
    rm -rf "$work"
done
say "strangers, servers: $passed passed, $failed failed, ${#missing[@]} skipped"
[ "$failed" = 0 ]

#!/usr/bin/env bash
# Runs NFS clients of others against `pagewell serve`: a directory, RAM and an ISO image, each with
# 13 operations (lib.sh says which). The table of docs/INTEROPERABILITY.md is what is expected.
#
# usage: tests/strangers/clients/run.sh [--write] [NAME...]     all clients when none is named
#
# Installs what is missing, builds the program unless PAGEWELL names one, and works in a network of
# its own, where the server has the port of the port mapper. The exit status is 1 when a cell
# differs from the document; --write writes the rows into it instead. What the clients said is in
# ${CARGO_TARGET_DIR:-target}/strangers/clients/logs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."
. "$here/lib.sh"
document=docs/INTEROPERABILITY.md
is_to_write=${STRANGERS_WRITE-}
[ "${1-}" != --write ] || { is_to_write=yes; shift; }
if [ $# = 0 ]; then
    mapfile -t all < <("$here/install.sh" --list | cut -d ' ' -f 1)
    set -- "${all[@]}"
fi

if [ -z "${STRANGERS_INSIDE-}" ]; then
    INSTALLED=$("$here/install.sh" "$@")
    if [ -z "${PAGEWELL-}" ]; then
        cargo build -q -p pagewell
        PAGEWELL=$(realpath -m "${CARGO_TARGET_DIR:-target}/debug/pagewell")
    fi
    export INSTALLED PAGEWELL STRANGERS_WRITE=$is_to_write
fi
enter_own_network "$here/run.sh" "$@"

die() { echo "strangers: $*" >&2; exit 1; }
ip link set lo up
logs=$INSTALLED/logs
scratch=$INSTALLED/scratch
rm -rf "$logs"
mkdir -p "$scratch" "$logs"
# It is gone with the name space, and not as slow as a busy disk.
mount -t tmpfs none "$scratch"
server=
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait
}
trap finish EXIT

make_tree "$scratch/tree" "$@"
xorriso -as mkisofs -quiet -R -o "$scratch/iso" "$scratch/tree" >"$logs/xorriso" 2>&1 ||
    die 'xorriso makes no image'
"$PAGEWELL" serve --listen 127.0.0.1:111 --state-dir "$scratch/state" --squash none \
    "/dir=$scratch/tree" /ram=ram:64m "/iso=$scratch/iso" >"$scratch/ready" 2>"$logs/server" &
server=$!
for _ in {1..600}; do
    ! grep -q '^ready ' "$scratch/ready" || break
    kill -0 "$server" 2>/dev/null || { cat "$logs/server" >&2; die 'the server ended'; }
    sleep 0.1
done
"$PAGEWELL" cp -r "$scratch"/tree/* nfs://127.0.0.1:111/ram >"$logs/cp" 2>&1 ||
    { cat "$logs/cp" >&2; die 'RAM cannot be filled'; }

for client in "$@"; do
    for export in dir ram iso; do
        run_driver "$client" 127.0.0.1 /$export "$logs/$client-$export"
        case $export in
            dir) check_cells "$scratch/tree/$client" ;;
            ram)
                "$PAGEWELL" cp -a "nfs://127.0.0.1:111/ram::/$client" "$scratch/ram-$client" \
                    >"$logs/cp" 2>&1 || { cat "$logs/cp" >&2; die 'RAM cannot be read'; }
                check_cells "$scratch/ram-$client"
                ;;
        esac
        row "$client" "$(version_of "$client")" $export
    done
done | tee "$scratch/rows"

failed=0
passed=0
while IFS= read -r row; do
    key=$(cut -d '|' -f 2,3 <<<"$row")
    expected=$(grep -F "|$key|" "$document" || true)
    if [ "$row" = "$expected" ]; then
        passed=$((passed + 1))
    elif [ -n "$is_to_write" ] && [ -n "$expected" ]; then
        ROW=$row EXPECTED=$expected perl -pi -e 's/^\Q$ENV{EXPECTED}\E$/$ENV{ROW}/' "$document"
        echo "written:  $row"
    else
        failed=$((failed + 1))
        printf 'FAILED:   %s\nexpected: %s\n' "$row" "${expected:-no such row}"
    fi
done <"$scratch/rows"
echo "clients of others: $passed passed, $failed failed (rows of 13 operations)"
[ "$failed" = 0 ]

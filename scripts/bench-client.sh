#!/usr/bin/env bash
# Measures the NFS client: `pagewell bench nfs`, then the real fio, with the jobs of the report, on a
# FUSE mount of an NFS export of this program's own server. Exit status 0 when every requirement is
# met and every fio run ends well.
#
# usage: scripts/bench-client.sh [--quick] [--repeat N] [--size SIZE] [--results DIRECTORY]
#   --quick              small files
#   --repeat N           runs of each case (3)
#   --size SIZE          bytes of fio's file (256m, 32m with --quick)
#   --results DIRECTORY  keep nfs.json, nfs.txt, fio-*.json and the counters here (else they go)
#
# Without /dev/fuse fio is left out, which is said. What fio reads on the mount it has written
# there before: its reads are those of a warm client.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

say() { printf 'bench-client: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

quick=() repeat=3 size=256m results=
while [ $# -gt 0 ]; do
    case $1 in
        --quick) quick=(--quick) size=32m ;;
        --repeat) repeat=${2:?how many?}; shift ;;
        --size) size=${2:?how many bytes?}; shift ;;
        --results) results=${2:?where?}; shift ;;
        *) say "unknown option $1"; sed -n 's/^# \(usage: .*\)/\1/p' "$0" >&2; exit 2 ;;
    esac
    shift
done
for program in fio cargo; do
    command -v "$program" >/dev/null || die "$program is missing (scripts/packages.sh bench)"
done
cargo build --release -q -p pagewell -p pagewell-bench
pagewell=${CARGO_TARGET_DIR:-target}/release/pagewell

work=$(mktemp -d "${TMPDIR:-/tmp}/pagewell-bench-client.XXXXXX")
[ -n "$results" ] || results=$work/results
mkdir -p "$results" "$work/mount"
server= mounter=
end() {
    local process
    for process in $mounter $server; do
        kill -TERM "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf --one-file-system "$work"
}
trap end EXIT
trap 'exit 1' INT TERM

failed=0
say "pagewell bench nfs"
"$pagewell" bench nfs "${quick[@]}" --repeat "$repeat" --json "$results/nfs.json" |
    tee "$results/nfs.txt" || failed=1

if [ ! -c /dev/fuse ]; then
    say "/dev/fuse is missing: fio on the mount is left out"
    exit "$failed"
fi

say "fio on a FUSE mount of an NFS export, $size"
"$pagewell" serve --listen 127.0.0.1:0 --squash none --state-dir "$work/state" \
    --http 127.0.0.1:0 ram:4g >"$work/ready" 2>"$work/server" &
server=$!
for _ in $(seq 100); do
    grep -q '^ready ' "$work/ready" && break
    sleep 0.1
done
url=$(sed -n 's/^ready //p' "$work/ready")
[ -n "$url" ] || die "the server did not start: $(cat "$work/server")"
"$pagewell" mount --http 127.0.0.1:0 --foreground "$url" "$work/mount" \
    >"$work/mounted" 2>"$work/client" &
mounter=$!
for _ in $(seq 100); do
    grep -q '^ready ' "$work/mounted" && break
    kill -0 "$mounter" 2>/dev/null || die "the mount failed: $(cat "$work/client")"
    sleep 0.1
done
# Without it fio would measure the directory below.
grep -q '^ready ' "$work/mounted" || die 'the mount was not ready after 10 s'
http=$(sed -n 's|.*metrics http://\([^/]*\)/metrics.*|\1|p' "$work/client" | head -n 1)

printf '\n%-12s %-5s %12s %12s %10s %10s\n' fio bs KiB/s IOPS 'p50 us' 'p99 us'
for bs in 4k 128k; do
    for rw in write read randread randwrite; do
        fio --name="$rw-$bs" --directory="$work/mount" --filename=file-$bs --rw="$rw" --bs="$bs" \
            --size="$size" --ioengine=psync --thread --numjobs=1 --refill_buffers --end_fsync=1 \
            --output-format=json --output="$results/fio-$rw-$bs.json" || { failed=1; continue; }
        kind=write
        case $rw in *read) kind=read ;; esac
        number() { # NAME-PATTERN: the first such number of the kind that was asked for
            sed -n "/\"$kind\" :/,/\"bw_min\"/p" "$results/fio-$rw-$bs.json" |
                sed -n "s/.*\"$1\" : \([0-9]*\).*/\1/p" | head -n 1
        }
        micro() { echo $(($(number "$1") / 1000)); }
        printf '%-12s %-5s %12s %12s %10s %10s\n' "$rw" "$bs" "$(number bw)" "$(number iops)" \
            "$(micro '50\.000000')" "$(micro '99\.000000')"
    done
done
if [ -n "$http" ]; then
    "$pagewell" counters --connect "$http" >"$results/client-counters.txt"
    sed -n '/^Client Info:/,/^$/p' "$results/client-counters.txt"
fi
"$pagewell" umount "$work/mount" || failed=1
wait "$mounter" || failed=1
mounter=
exit "$failed"

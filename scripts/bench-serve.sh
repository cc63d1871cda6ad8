#!/usr/bin/env bash
# Measures `pagewell serve`, nfs-ganesha (VFS) and unfs3 side by side on one directory, and a bare
# server that says what the machine lets through (pagewell-limit, in each of its ways to send), and
# says whether Pagewell is what it must be. Exit status 0 when every requirement is met.
#
# usage: scripts/bench-serve.sh [--quick] [--repeat N] [--seconds S] [--only TEXT]
#                               [--json FILE] [--no-document]
#   --quick        0.3 seconds for each run, 2 rounds, docs/results/serve.md stays as it is
#   --repeat N     rounds (5)
#   --seconds S    length of one run (1)
#   --only TEXT    only cases whose name contains TEXT; implies --no-document
#   --json FILE    where the result goes (target/bench-serve.json)
#   --no-document  leave docs/results/serve.md as it is
#
# Needs root, because nfs-ganesha opens files by handle, and 3 GiB in BENCH_DIRECTORY
# (default /var/tmp), which should be on the disk that matters. Where unfs3 cannot be had
# (scripts/unfs3.sh) the others are measured without it, and the result says so. Everything runs in a network of its
# own that has only a loopback device, because nfs-ganesha registers with the port mapper and would
# replace what another NFS server of the machine has registered there. Where that is not permitted
# it runs in the network of the machine, at ports that are free.
set -euo pipefail
cd "$(dirname "$0")/.."
script=scripts/bench-serve.sh
PATH=$PATH:/usr/sbin:/sbin

say() { printf 'bench-serve: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }
. scripts/ganesha.sh

repeat=5 seconds=1 only='' document=docs/results/serve.md
result=${CARGO_TARGET_DIR:-target}/bench-serve.json
command='make bench-serve'
[ $# -eq 0 ] || command+=" BENCH_OPTIONS='$*'"
options=("$@")
while [ $# -gt 0 ]; do
    case $1 in
        --quick) repeat=2 seconds=0.3 document= ;;
        --repeat) repeat=${2:?how many?}; shift ;;
        --seconds) seconds=${2:?how many?}; shift ;;
        --only) only=${2:?which?}; document=; shift ;;
        --json) result=${2:?which file?}; shift ;;
        --no-document) document= ;;
        *) say "unknown option $1"; sed -n 's/^# \(usage: .*\)/\1/p' "$script" >&2; exit 2 ;;
    esac
    shift
done
[ "$(id -u)" = 0 ] || die 'nfs-ganesha must be root to serve files; run this as root'
for program in ganesha.nfsd rpcbind cargo; do
    command -v "$program" >/dev/null || die "$program is missing (scripts/packages.sh bench)"
done

if [ -z "${BENCH_SERVE_INSIDE-}" ]; then
    cargo build --release -q -p pagewell -p pagewell-load
    # Its network cannot be reached from the inside.
    BENCH_UNFSD=$(scripts/unfs3.sh) || BENCH_UNFSD=
    export BENCH_UNFSD
    export BENCH_SERVE_INSIDE=no
    if command -v ip >/dev/null && unshare -n -m true 2>/dev/null; then
        BENCH_SERVE_INSIDE=yes exec unshare -n -m "$script" "${options[@]}"
    fi
    say 'no network of its own is permitted; using that of the machine'
elif [ "$BENCH_SERVE_INSIDE" = yes ]; then
    prepare_network || die 'the network of its own cannot be set up'
    # System calls are counted where this is permitted, and otherwise not.
    mount -t tracefs none /sys/kernel/tracing 2>/dev/null || true
fi
programs=${CARGO_TARGET_DIR:-target}/release

work=$(mktemp -d "${BENCH_DIRECTORY:-/var/tmp}/pagewell-bench.XXXXXX")
shared=$work/shared
mkdir "$shared"
finish() {
    end_started
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

start_pagewell() { # leaves its description in $pagewell
    local process address version
    "$programs/pagewell" serve --listen 127.0.0.1:0 --squash none \
        --state-dir "$work/state" "/shared=$shared" \
        >"$work/pagewell.out" 2>"$work/pagewell.log" &
    process=$!
    started+=("$process")
    if ! wait_until 20 "$process" grep -q '^ready' "$work/pagewell.out"; then
        cat "$work/pagewell.log" >&2
        die 'pagewell does not start'
    fi
    address=$(sed -nE 's,^ready nfs://([^/]+)/.*,\1,p' "$work/pagewell.out")
    version=$("$programs/pagewell" --version | sed 's/^[^ ]* //')
    pagewell="name=pagewell,version=$version,nfs=$address,pid=$process,export=/shared"
}

start_unfs3() { # leaves its description in $unfs3, and what is to be said of it in $note
    local port process version
    unfs3='' note=''
    if [ -z "${BENCH_UNFSD-}" ]; then
        note='unfs3 is not measured: it cannot be had here (scripts/unfs3.sh says why).'
        say "$note"
        return
    fi
    port=$(free_port)
    # The load generator does not call from a port that only root may use.
    printf '"%s" 127.0.0.1(rw,no_root_squash,insecure)\n' "$shared" >"$work/unfs3.exports"
    "$BENCH_UNFSD" -d -t -p -l 127.0.0.1 -n "$port" -m "$port" -e "$work/unfs3.exports" \
        >"$work/unfs3.log" 2>&1 &
    process=$!
    started+=("$process")
    if ! wait_until 20 "$process" listens "$port"; then
        cat "$work/unfs3.log" >&2
        die 'unfs3 does not start'
    fi
    version=$("$BENCH_UNFSD" -h | sed -nE 's/.*unfsd ([0-9][^ ]*).*/\1/p' | head -n 1)
    unfs3="name=unfs3,version=$version,nfs=127.0.0.1:$port,pid=$process"
    unfs3+=",without=readdirplus,export=$shared"
}

start_limit() { # WAY: leaves its description in $limit
    local process address out=$work/limit-$1.out
    "$programs/pagewell-limit" --way "$1" --read "$shared/read.data" \
        --write "$shared/write.data" --write "$shared/random.data" >"$out" 2>&1 &
    process=$!
    started+=("$process")
    if ! wait_until 20 "$process" grep -q '^ready' "$out"; then
        cat "$out" >&2
        die 'pagewell-limit does not start'
    fi
    address=$(sed -nE 's,^ready nfs://([^/]+)/.*,\1,p' "$out")
    limit="name=bare $1,nfs=$address,pid=$process,kind=limit,export=/"
}

shared=$(realpath "$shared")
# The bare servers open what they serve when they start.
"$programs/pagewell-load" prepare "$shared"
start_ganesha "$shared" "$work"
version=$(ganesha.nfsd -v | sed -nE 's/.*Release = V?([0-9][^ ]*).*/\1/p' | head -n 1)
ganesha="name=nfs-ganesha,version=$version (VFS),nfs=127.0.0.1:$ganesha_port"
ganesha+=",mount=127.0.0.1:$ganesha_mount_port,pid=$ganesha_process,export=/shared"
start_pagewell
start_unfs3
arguments=(--server "$pagewell" --server "$ganesha")
[ -z "$unfs3" ] || arguments+=(--server "$unfs3")
for way in mapping copy sendfile; do
    start_limit "$way"
    arguments+=(--server "$limit")
done
arguments+=(--directory "$shared" --repeat "$repeat" --seconds "$seconds" --only "$only"
    --json "$result" --command "$command" --note "$note")
[ -z "$document" ] || arguments+=(--markdown "$document")
# In the background, so that a signal ends it at once.
"$programs/pagewell-load" compare "${arguments[@]}" &
started+=($!)
status=0
wait $! || status=$?
say "the result is in $result"
exit "$status"

#!/usr/bin/env bash
# Measures `pagewell serve` and nfs-ganesha (VFS) side by side on one directory and says whether
# Pagewell is what it must be. Exit status 0 when every requirement is met.
#
# usage: scripts/bench-serve.sh [--quick] [--repeat N] [--seconds S] [--only TEXT]
#                               [--json FILE] [--no-document]
#   --quick        1 second for each run, 2 rounds, docs/results/serve.md stays as it is
#   --repeat N     rounds (5)
#   --seconds S    length of one run (3)
#   --only TEXT    only cases whose name contains TEXT; implies --no-document
#   --json FILE    where the result goes (target/bench-serve.json)
#   --no-document  leave docs/results/serve.md as it is
#
# Needs root, because nfs-ganesha opens files by handle, and 2 GiB in BENCH_DIRECTORY
# (default /var/tmp), which should be on the disk that matters. Everything runs in a network of its
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

repeat=5 seconds=3 only='' document=docs/results/serve.md
result=${CARGO_TARGET_DIR:-target}/bench-serve.json
command='make bench-serve'
[ $# -eq 0 ] || command+=" BENCH_OPTIONS='$*'"
options=("$@")
while [ $# -gt 0 ]; do
    case $1 in
        --quick) repeat=2 seconds=1 document= ;;
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
    cargo build --release -q -p pagewell -p pagewell-bench
    export BENCH_SERVE_INSIDE=no
    if command -v ip >/dev/null && unshare -n -m true 2>/dev/null; then
        BENCH_SERVE_INSIDE=yes exec unshare -n -m "$script" "${options[@]}"
    fi
    say 'no network of its own is permitted; using that of the machine'
elif [ "$BENCH_SERVE_INSIDE" = yes ]; then
    prepare_network || die 'the network of its own cannot be set up'
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

start_ganesha "$shared" "$work"
version=$(ganesha.nfsd -v | sed -nE 's/.*Release = V?([0-9][^ ]*).*/\1/p' | head -n 1)
ganesha="name=nfs-ganesha,version=$version (VFS),nfs=127.0.0.1:$ganesha_port"
ganesha+=",mount=127.0.0.1:$ganesha_mount_port,pid=$ganesha_process,export=/shared"
start_pagewell
arguments=(--server "$pagewell" --server "$ganesha" --directory "$shared" --repeat "$repeat"
    --seconds "$seconds" --only "$only" --json "$result" --command "$command")
[ -z "$document" ] || arguments+=(--markdown "$document")
# In the background, so that a signal ends it at once.
"$programs/pagewell-load" compare "${arguments[@]}" &
started+=($!)
status=0
wait $! || status=$?
say "the result is in $result"
exit "$status"

#!/usr/bin/env bash
# Measures `pagewell serve` and nfs-ganesha (VFS) side by side on one directory and says whether
# Pagewell is what it must be. Exit status 0 when every requirement is met.
#
# usage: scripts/bench-serve.sh [--quick] [--repeat N] [--seconds S] [--only TEXT]
#                               [--json FILE] [--no-document]
#   --quick        1 second for each run, 2 rounds, docs/BENCHMARKING.md stays as it is
#   --repeat N     rounds (5)
#   --seconds S    length of one run (3)
#   --only TEXT    only cases whose name contains TEXT; implies --no-document
#   --json FILE    where the result goes (target/bench-serve.json)
#   --no-document  leave docs/BENCHMARKING.md as it is
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

repeat=5 seconds=3 only='' document=docs/BENCHMARKING.md
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

inside() { # in the network of its own, with a /run of its own for the port mapper
    # The second address is used by nobody, but with none except 127.0.0.1 the C library takes the
    # machine for one without IPv4 and finds no address for "127.0.0.1" (getaddrinfo(3),
    # AI_ADDRCONFIG), which nfs-ganesha asks it for. It is one of those reserved for documentation.
    ip link set lo up && ip address add 192.0.2.1/32 dev lo && mount -t tmpfs none /run
}

if [ -z "${BENCH_SERVE_INSIDE-}" ]; then
    cargo build --release -q -p pagewell -p pagewell-bench
    export BENCH_SERVE_INSIDE=no
    if command -v ip >/dev/null && unshare -n -m true 2>/dev/null; then
        BENCH_SERVE_INSIDE=yes exec unshare -n -m "$script" "${options[@]}"
    fi
    say 'no network of its own is permitted; using that of the machine'
elif [ "$BENCH_SERVE_INSIDE" = yes ]; then
    inside || die 'the network of its own cannot be set up'
fi
programs=${CARGO_TARGET_DIR:-target}/release

work=$(mktemp -d "${BENCH_DIRECTORY:-/var/tmp}/pagewell-bench.XXXXXX")
shared=$work/shared
mkdir "$shared"
started=()
finish() {
    local process
    for process in "${started[@]}"; do
        kill "$process" 2>/dev/null || true
    done
    for process in "${started[@]}"; do
        for _ in {1..100}; do
            kill -0 "$process" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$process" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_port() {
    local port
    while port=$((20000 + RANDOM % 10000)); listens "$port"; do :; done
    echo "$port"
}

wait_until() { # SECONDS PROCESS COMMAND...
    local tries=$(($1 * 10)) process=$2
    shift 2
    while [ "$tries" -gt 0 ]; do
        "$@" && return
        kill -0 "$process" 2>/dev/null || return 1
        sleep 0.1
        tries=$((tries - 1))
    done
    return 1
}

start_ganesha() { # leaves its description in $ganesha
    local nfs mount process plugins version
    if ! listens 111; then
        # Without a port mapper nfs-ganesha refuses to serve NFS version 3.
        rpcbind -f >"$work/rpcbind.log" 2>&1 &
        started+=($!)
        wait_until 5 $! listens 111 || { cat "$work/rpcbind.log" >&2; die 'rpcbind fails'; }
    fi
    nfs=$(free_port)
    mount=$((nfs + 1))
    plugins=$(find /usr/lib -name libfsalvfs.so -printf '%h\n' -quit)
    [ -n "$plugins" ] || die 'the VFS part of nfs-ganesha is missing (package nfs-ganesha-vfs)'
    mkdir -p /run/ganesha
    cat >"$work/ganesha.conf" <<END
NFS_CORE_PARAM {
    NFS_Port = $nfs; MNT_Port = $mount; Bind_addr = 127.0.0.1; Protocols = 3;
    Enable_NLM = false; Enable_RQUOTA = false; Plugins_Dir = $plugins;
    mount_path_pseudo = true;
}
NFS_KRB5 { Active_krb5 = false; }
NFSv4 { Graceless = true; }
EXPORT {
    Export_Id = 1; Path = $shared; Pseudo = /shared; Protocols = 3; Transports = TCP;
    Access_Type = RW; Squash = No_Root_Squash; SecType = sys; PrivilegedPort = false;
    FSAL { Name = VFS; }
}
END
    ganesha.nfsd -F -f "$work/ganesha.conf" -L "$work/ganesha.log" -p "$work/ganesha.pid" \
        -N NIV_EVENT >"$work/ganesha.out" 2>&1 &
    process=$!
    started+=("$process")
    if ! wait_until 60 "$process" grep -q 'NFS SERVER INITIALIZED' "$work/ganesha.log" \
        2>/dev/null; then
        tail -n 20 "$work/ganesha.out" "$work/ganesha.log" >&2
        die 'nfs-ganesha does not start'
    fi
    version=$(ganesha.nfsd -v | sed -nE 's/.*Release = V?([0-9][^ ]*).*/\1/p' | head -n 1)
    ganesha="name=nfs-ganesha,version=$version (VFS),nfs=127.0.0.1:$nfs"
    ganesha+=",mount=127.0.0.1:$mount,pid=$process,export=/shared"
}

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

start_ganesha
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

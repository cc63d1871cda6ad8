# Read by every scenario. A scenario is a bash program that fails with a message or ends with
# status 0. The runner gives it PAGEWELL (the program under test) and SCRATCH (an empty directory
# of its own). To try the scenarios on another server, PAGEWELL may be a script that starts it;
# then MOUNT_PORT_OFFSET (MOUNT port less NFS port) and GUEST_MOUNT_OPTIONS may be needed.
set -euo pipefail
shopt -s inherit_errexit

CLIENTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
REPOSITORY=$(cd "$CLIENTS/../.." && pwd)
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C.UTF-8
SERVER=
MACHINE=
PORT=
server_arguments=()

fail() {
    echo "FAILED: $*"
    exit 1
}

# What a scenario leaves running is stopped, whatever happened.
finish() {
    local status=$?
    [ -z "$MACHINE" ] || kill "$MACHINE" 2>/dev/null || true
    [ -z "$SERVER" ] || kill -KILL "$SERVER" 2>/dev/null || true
    if [ "$status" != 0 ] && [ -s "$SCRATCH/server.log" ]; then
        echo '--- standard error of the server:'
        tail -n 40 "$SCRATCH/server.log"
    fi
    # Last, since a mount of it may have to write.
    [ "$(type -t end_started)" != function ] || end_started
    exit "$status"
}
trap finish EXIT
trap 'echo "FAILED at ${BASH_SOURCE[0]##*/}:$LINENO: $BASH_COMMAND"' ERR
set -E

# Says why this machine cannot run the scenario; the runner counts it apart.
skip() {
    echo "SKIPPED: $*"
    exit 77
}

is_root() { [ "$(id -u)" = 0 ]; }

# --- the server -----------------------------------------------------------------------------

# A port that the system gives to nobody, also while a server is started again.
free_port() {
    local port
    while port=$((10000 + RANDOM % 10000)); is_listening "$port"; do :; done
    echo "$port"
}

# serve ARGUMENT...: starts a server on a free port and waits until it is ready.
serve() {
    server_arguments=("$@")
    start_server "$(free_port)"
}

# The same exports on the same port.
serve_again() { start_server "$PORT"; }

start_server() { # PORT
    local waited=0
    : >"$SCRATCH/ready"
    # The key of file handles lasts across restarts, and must not leave the scenario.
    "$PAGEWELL" serve --listen "127.0.0.1:$1" --state-dir "$SCRATCH/state" \
        "${server_arguments[@]}" \
        >"$SCRATCH/ready" 2>>"$SCRATCH/server.log" &
    SERVER=$!
    until grep -q '^ready ' "$SCRATCH/ready"; do
        kill -0 "$SERVER" 2>/dev/null || fail "the server ended: ${server_arguments[*]}"
        [ $((waited += 1)) -le 2400 ] || fail 'the server was not ready after two minutes'
        sleep 0.05
    done
    [ "$(wc -l <"$SCRATCH/ready")" = 1 ] || fail 'more than one line on standard output'
    PORT=$(sed -nE 's,^ready nfs://127\.0\.0\.1:([0-9]+)/.*,\1,p' "$SCRATCH/ready")
    [ -n "$PORT" ] || fail "no port in: $(cat "$SCRATCH/ready")"
    MOUNT_PORT=$((PORT + ${MOUNT_PORT_OFFSET:-0}))
}

# A clean stop must end with status 0.
stop_server() {
    local status=0
    kill -TERM "$SERVER"
    wait "$SERVER" || status=$?
    SERVER=
    [ "$status" = 0 ] || fail "the server ended with status $status after SIGTERM"
}

kill_server() {
    kill -KILL "$SERVER"
    wait "$SERVER" 2>/dev/null || true
    SERVER=
}

is_listening() { # PORT
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# --- clients --------------------------------------------------------------------------------

# url PATH [ARGUMENT...]: how the programs of libnfs name it.
url() {
    local path=$1 more
    shift
    more=$(printf '&%s' "$@")
    [ $# -gt 0 ] || more=
    echo "nfs://127.0.0.1$path?nfsport=$PORT&mountport=$MOUNT_PORT&version=3$more"
}

# copy_in FILE PATH and copy_out PATH FILE. nfs-cp writes its progress to standard output, and
# refuses to write a local file that is there.
copy_in() { nfs-cp "$1" "$(url "$2")" >"$SCRATCH/nfs-cp.log" || fail "nfs-cp to $2"; }
copy_out() {
    rm -f "$2"
    nfs-cp "$(url "$1")" "$2" >"$SCRATCH/nfs-cp.log" || fail "nfs-cp from $1"
}

# guest [-t SECONDS] NAME [FILE...]: runs guest/NAME.sh on a Linux kernel, with FILEs beside it. The
# time limit only ends what hangs, before that of the scenario does (run.sh): on a busy machine the
# guest is many times slower.
guest() {
    local seconds=1400 name file added=()
    [ "$1" != -t ] || { seconds=$2; shift 2; }
    name=$1
    shift
    for file in "$@"; do added+=(-a "$file"); done
    printf '%s=%s\n' PORT "$PORT" MOUNT_PORT "$MOUNT_PORT" \
        MOUNT_OPTIONS "${GUEST_MOUNT_OPTIONS:-}" >"$SCRATCH/environment"
    "$REPOSITORY/tests/guest/boot.sh" -t "$seconds" -a "$CLIENTS/guest/lib.sh" \
        -a "$SCRATCH/environment" "${added[@]}" "$CLIENTS/guest/$name.sh"
}

# start_guest ...: the same in the background; what it prints goes to $SCRATCH/guest.log.
start_guest() {
    guest "$@" >"$SCRATCH/guest.log" 2>&1 &
    MACHINE=$!
}

# guest_says TEXT: waits until the guest has printed a line that begins so.
guest_says() {
    local waited=0
    until grep -q "^$1" "$SCRATCH/guest.log"; do
        kill -0 "$MACHINE" 2>/dev/null || { cat "$SCRATCH/guest.log"; fail "guest ended before '$1'"; }
        [ $((waited += 1)) -le 12000 ] || { cat "$SCRATCH/guest.log"; fail "guest never said '$1'"; }
        sleep 0.1
    done
}

finish_guest() {
    local status=0
    wait "$MACHINE" || status=$?
    MACHINE=
    cat "$SCRATCH/guest.log"
    [ "$status" = 0 ] || fail "the guest ended with status $status"
}

# --- trees ----------------------------------------------------------------------------------

# make_tree DIRECTORY [COUNT]: some of everything that every kind of source can hold, and COUNT
# small files in one directory (default 300).
make_tree() {
    local name
    mkdir -p "$1/sub/deep/deeper" "$1/many"
    printf 'hello\n' >"$1/hello.txt"
    : >"$1/empty"
    head -c 1048577 /dev/urandom >"$1/sub/odd-size"
    head -c 65536 /dev/urandom >"$1/sub/deep/deeper/blocks"
    ln -s ../hello.txt "$1/sub/link"
    for name in 'with space' 'naïve-日本語' '#hash' "quote'\"double" '-dash' 'back\slash' '.hidden'; do
        printf '%s\n' "$name" >"$1/sub/$name"
    done
    printf 'long\n' >"$1/$(printf 'n%.0s' {1..200})"
    for name in $(seq "${2:-300}"); do echo "$name" >"$1/many/file-$name"; done
    chmod -R u=rwX,go=rX "$1"
}

# sums DIRECTORY: checksum and name of every file below, sorted.
sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 -r sha256sum --); }

same_file() { # EXPECTED FOUND
    [ "$(sha256sum <"$1")" = "$(sha256sum <"$2")" ] || fail "$2 differs from $1"
}

make_iso() { # IMAGE DIRECTORY
    xorriso -as mkisofs -quiet -R -J -joliet-long -o "$1" "$2" >"$SCRATCH/xorriso.log" 2>&1 ||
        { cat "$SCRATCH/xorriso.log"; fail "xorriso could not make $1"; }
}

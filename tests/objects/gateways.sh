#!/usr/bin/env bash
# Three gateways of one bucket behind HAProxy, of which the one that the client uses is killed every
# few seconds and started again. A kernel client in the guest copies, verifies and renames meanwhile:
# no program there may see an error, and what was acknowledged is in the bucket at the end.
#
# usage: tests/objects/gateways.sh [--rounds N] [--ack store|journal]
#
# 50 rounds, and ack=store, if nothing is said. Exit status 77, with a reason: this machine cannot run it.
set -euo pipefail
usage() { sed -n '6,8s/^# //p' "$0" >&2; exit 2; }
rounds=50 ack=store
while [ $# -gt 0 ]; do
    case $1 in
        --rounds) rounds=${2-} ;;
        --ack) ack=${2-} ;;
        *) usage ;;
    esac
    shift 2 || usage
done
[[ $rounds =~ ^[0-9]+$ && $ack =~ ^(store|journal)$ ]] || usage
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
if [ -z "${PAGEWELL-}" ]; then
    cargo build -q -p pagewell
    PAGEWELL=$target/debug/pagewell
fi
for name in versitygw haproxy; do "$here/servers.sh" install "$name"; done
SCRATCH=$(mktemp -d)
. tests/clients/lib.sh
[ "$(uname -m)" = x86_64 ] || skip 'the guest needs an x86-64 host'

gateways=() gateway_ports=() kills=(0 0 0) store='' balancer=''
end_started() {
    local one
    for one in $balancer "${gateways[@]}"; do kill -KILL "$one" 2>/dev/null || true; done
    [ -z "$store" ] || { kill "$store" && wait "$store"; } 2>/dev/null || true
    rm -rf "$SCRATCH"
}

export AWS_ACCESS_KEY_ID=pagewell-test AWS_SECRET_ACCESS_KEY=pagewell-test-secret
export AWS_EC2_METADATA_DISABLED=true

# wait_for FILE PATTERN PROCESS WHAT: until a line of the file is so.
wait_for() {
    local waited=0
    until grep -q "$2" "$1"; do
        kill -0 "$3" 2>/dev/null || fail "$4 ended"
        [ $((waited += 1)) -le 2400 ] || fail "$4 was not ready after two minutes"
        sleep 0.05
    done
}

start_store() {
    mkdir "$SCRATCH/store"
    : >"$SCRATCH/store.ready"
    "$here/servers.sh" run versitygw "$SCRATCH/store" >"$SCRATCH/store.ready" 2>"$SCRATCH/store.log" &
    store=$!
    wait_for "$SCRATCH/store.ready" '^ready ' "$store" 'the store'
    bucket="s3://bucket?endpoint=$(sed -n 's/^ready //p' "$SCRATCH/store.ready")&region=us-east-1"
    bucket+="&metadata=objects"
}

# Each with a state directory of its own, in which it stages, and all with one key of handles.
start_gateway() { # NUMBER
    local folder=$SCRATCH/gateway-$1
    if [ ! -e "$folder" ]; then
        mkdir -m 700 "$folder"
        [ "$1" = 0 ] || cp -p "$SCRATCH/gateway-0/handle-key" "$folder/"
    fi
    : >"$folder.ready"
    "$PAGEWELL" serve --listen "127.0.0.1:${gateway_ports[$1]}" --state-dir "$folder" \
        --squash none "/data=$bucket&ack=$ack" >"$folder.ready" 2>>"$SCRATCH/server.log" &
    gateways[$1]=$!
    wait_for "$folder.ready" '^ready ' "${gateways[$1]}" "gateway $1"
}

configuration() {
    cat <<END
defaults
    mode tcp
    timeout connect 2s
    timeout client 1h
    timeout server 1h

listen nfs
    bind 127.0.0.1:$PORT
END
    if [ "$ack" = store ]; then
        # A client stays where it is, and goes elsewhere only when its gateway is gone.
        cat <<END
    stick-table type ipv6 size 100k expire 1d
    stick on src
    option redispatch 1
    option tcp-check
    tcp-check send-binary 80000028504147450000000000000002000186a3000000030000000000000000000000000000000000000000
    tcp-check expect binary 5041474500000001
    default-server check inter 200ms fall 1 rise 1 on-marked-down shutdown-sessions
END
    else
        # A client waits for its own gateway, whose journal has what no other one has.
        cat <<END
    balance source
    retries 30
END
    fi
    for number in 0 1 2; do
        echo "    server gateway-$number 127.0.0.1:${gateway_ports[$number]}"
    done
    cat <<END

listen state
    mode http
    bind 127.0.0.1:$state_port
    stats enable
    stats uri /
END
}

start_balancer() {
    local root=$target/objects/haproxy/root
    PORT=$(free_port)
    MOUNT_PORT=$PORT state_port=$(free_port)
    configuration >"$SCRATCH/haproxy.cfg"
    LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu \
        "$root/usr/sbin/haproxy" -db -f "$SCRATCH/haproxy.cfg" >"$SCRATCH/haproxy.log" 2>&1 &
    balancer=$!
    for _ in {1..200}; do
        ! is_listening "$PORT" || return 0
        kill -0 "$balancer" 2>/dev/null || break
        sleep 0.05
    done
    cat "$SCRATCH/haproxy.log"
    fail 'HAProxy does not start'
}

# The number of a gateway that has a connection, or nothing.
used_gateway() {
    {
        exec 3<>"/dev/tcp/127.0.0.1/$state_port"
        printf 'GET /;csv HTTP/1.0\r\n\r\n' >&3
        awk -F , '$1 == "nfs" && $2 ~ /^gateway-/ && $5 > 0 { print substr($2, 9) }' <&3 | head -n 1
        exec 3>&-
    } 2>/dev/null
}

passes() { grep -c '^progress ' "$SCRATCH/guest.log" || true; }

# The gateway that is used, killed in the middle of whatever it does.
round() { # NUMBER
    local used='' waited=0
    while [ -z "$used" ]; do
        kill -0 "$MACHINE" 2>/dev/null || { cat "$SCRATCH/guest.log"; fail "the guest ended in round $1"; }
        [ $((waited += 1)) -le 1200 ] || fail "no gateway is used in round $1"
        sleep 0.1
        used=$(used_gateway || true)
    done
    kill -KILL "${gateways[$used]}"
    wait "${gateways[$used]}" 2>/dev/null || true
    kills[used]=$((kills[used] + 1))
    sleep "0.$((RANDOM % 10))"
    start_gateway "$used"
    sleep "$((1 + RANDOM % 3)).$((RANDOM % 10))"
}

start_store
for number in 0 1 2; do
    gateway_ports[number]=$(free_port)
    start_gateway "$number"
done
start_balancer
make_tree "$SCRATCH/tree" 20
tar -c -C "$SCRATCH/tree" . >"$SCRATCH/tree.tar"
sums "$SCRATCH/tree" >"$SCRATCH/sums"

start_guest -t $((900 + rounds * 30)) gateways "$SCRATCH/tree.tar" "$SCRATCH/sums"
guest_says working
for ((number = 1; number <= rounds; number++)); do
    round "$number"
    [ $((number % 10)) != 0 ] || echo "$number rounds, $(passes) passes of the client"
done
echo stop >"$SCRATCH/stop"
"$PAGEWELL" cp "$SCRATCH/stop" "$bucket::/stop"
finish_guest >"$SCRATCH/said" || { cat "$SCRATCH/said"; exit 1; }
grep -v '^expected ' "$SCRATCH/said" | tail -n 5
sed -n 's/^expected //p' "$SCRATCH/said" >"$SCRATCH/expected"
count=$(wc -l <"$SCRATCH/expected")
[ "$count" -gt 0 ] || fail 'nothing to compare'
echo "killed: ${kills[*]}; $count files to compare"

# What a journal has is sent before a server ends.
for number in 0 1 2; do
    kill -TERM "${gateways[$number]}"
    wait "${gateways[$number]}" || fail "gateway $number ended with an error"
done
gateways=()
(cd "$SCRATCH/store/bucket" && sha256sum --check --quiet "$SCRATCH/expected") ||
    fail 'the store has other bytes'
"$PAGEWELL" sum --check "$SCRATCH/expected" --quiet "$bucket" || fail 'a new reader finds other bytes'
kept=$(find "$SCRATCH"/gateway-* -name '*.kept')
[ -z "$kept" ] || fail "a conflict, with one client: $kept"
echo "ok: $rounds rounds with ack=$ack"

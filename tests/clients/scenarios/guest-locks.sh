# Locks across the network: two Linux kernels mount without `nolock`, and one of them twice. In a
# network of its own, where a port mapper can be started: lock managers ask it for each other.
. "$(dirname "$0")/../lib.sh"

is_root || skip 'a network of its own takes root'
for program in rpcbind ip; do
    command -v $program >/dev/null || skip "$program is missing"
done
if [ -z "${LOCKS_INSIDE-}" ]; then
    unshare -n -m true 2>/dev/null || skip 'no network of its own is permitted'
    # What may have to be fetched is fetched while there is a network.
    "$REPOSITORY/tests/guest/kernel.sh" >/dev/null
    "$REPOSITORY/tests/guest/tools.sh" >/dev/null
    # Nothing is to be ended yet.
    trap - EXIT ERR
    LOCKS_INSIDE=yes exec unshare -n -m bash "$0"
fi
"$CLIENTS/alone.sh"
ip link set lo up
mount -t tmpfs none /run
rpcbind -f -w &
mapper=$!
end_started() { kill "$mapper" 2>/dev/null || true; }
until rpcinfo -p 127.0.0.1 >/dev/null 2>&1; do
    kill -0 "$mapper" 2>/dev/null || fail 'rpcbind ended'
    sleep 0.1
done

mkdir "$SCRATCH/served"
touch "$SCRATCH/served/file" "$SCRATCH/served/shared"
serve --register --squash none "$SCRATCH/served"
rpcinfo -p 127.0.0.1
start_guest locks "$CLIENTS/guest/lock-client.sh"
guest locks-other "$CLIENTS/guest/lock-client.sh" | tee "$SCRATCH/other.log"
finish_guest
grep -q '^the lock is here' "$SCRATCH/other.log" || fail 'the second kernel had no lock'
[ -e "$SCRATCH/served/done" ] || fail 'the second kernel did not come to its end'
stop_server

# Locks across the network: two Linux kernels mount without `nolock`, and one of them twice. In a
# network of its own, where a port mapper can be started: lock managers ask it for each other.
. "$(dirname "$0")/../lib.sh"
. "$CLIENTS/network.sh"

own_network
start_port_mapper

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

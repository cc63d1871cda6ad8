# The server is killed, and stopped, under a mounted client that writes and verifies. The client
# waits and goes on; its programs see no error.
. "$(dirname "$0")/../lib.sh"

mkdir "$SCRATCH/served"
make_tree "$SCRATCH/tree"
make_iso "$SCRATCH/tree.iso" "$SCRATCH/tree"
serve --squash none "/dir=$SCRATCH/served" "/iso=$SCRATCH/tree.iso"
start_guest restart "$SCRATCH/tree/sub/odd-size"

guest_says 'writing'
for round in 1 2; do
    sleep 3
    kill_server
    sleep 1
    serve_again
    echo "killed and started again ($round)"
    guest_says "progress $((round * 2))"
done
stop_server
sleep 1
serve_again
echo 'stopped and started again'
finish_guest
# The guest has synchronised it and its client is gone: the host has every byte.
(cd "$SCRATCH/served" && sha256sum --check --quiet sums) || fail 'wrong bytes on the host'
stop_server

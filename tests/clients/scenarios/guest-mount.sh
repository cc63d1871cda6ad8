# The mount command that the server prints works as it stands, but for the address.
. "$(dirname "$0")/../lib.sh"

make_tree "$SCRATCH/served"
serve --squash none "/dir=$SCRATCH/served" /ram=ram:16m
grep -Eo 'mount -t nfs .*' "$SCRATCH/server.log" | head -n 1 >"$SCRATCH/command" || true
cat "$SCRATCH/command"
[ -s "$SCRATCH/command" ] || fail 'no mount command on standard error'
guest mount "$SCRATCH/command" "$SCRATCH/served/hello.txt"
stop_server

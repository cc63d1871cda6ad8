# A server that never comes back: programs can be killed, the mount can be taken away, and what is
# lost is said; a soft mount gives an error.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
mkdir "$SCRATCH/served"
head -c 300000 /dev/urandom >"$SCRATCH/served/file"
serve --squash none "dir:$SCRATCH/served"
mount_source hard "nfs://127.0.0.1:$PORT/"
mount_source soft "nfs://127.0.0.1:$PORT/?soft&timeo=50&retrans=1"
same_file "$SCRATCH/served/file" "$SCRATCH/hard/file"
kill_server

# Soft: an error, in bounded time.
! timeout 600 cat "$SCRATCH/soft/file" >"$SCRATCH/out" 2>"$SCRATCH/err" || fail 'there is no server to read from'
grep -q 'Input/output error' "$SCRATCH/err" || fail "soft: $(cat "$SCRATCH/err")"

# Hard: waits, and can be killed.
printf 'never written\n' >"$SCRATCH/hard/new" &
waits=$!
sleep 1
kill -0 "$waits" || fail 'a hard mount did not wait'
kill -KILL "$waits"
waited=0
while kill -0 "$waits" 2>/dev/null; do
    [ $((waited += 1)) -le 1200 ] || fail 'a program that waits for the server cannot be killed'
    sleep 0.1
done

unmount_source soft

# A signal: what the killed program left behind is waited for, but not without end.
stop_mount() { # what it says goes to $SCRATCH/mount.log, and its status to $status
    MOUNT=$SCRATCH/hard MOUNTER=${mounters[hard]}
    unset 'mounters[hard]'
    status=0
    kill -TERM "$MOUNTER"
    timeout 120 tail --pid="$MOUNTER" -f /dev/null || fail 'the mount does not end'
    wait "$MOUNTER" || status=$?
    MOUNTER=
    ! grep -qF " $MOUNT " /proc/mounts || fail 'it is still mounted'
}
stop_mount

# Data that cannot be written any more: that is said, and the status is not 0.
serve_again
mount_source hard "nfs://127.0.0.1:$PORT/"
{
    # No redirection and no child after the write: each would close a copy of the descriptor, and
    # closing brings the data to the server.
    exec >"$SCRATCH/hard/lost"
    printf 'lost\n'
    : 2>"$SCRATCH/written"
    exec sleep 600
} &
writer=$!
until [ -e "$SCRATCH/written" ]; do sleep 0.1; done
kill_server
kill -KILL "$writer"
: >"$SCRATCH/mount.log"
stop_mount
[ "$status" = 1 ] || fail "data was lost, and the mount ended with status $status"
grep -q '5 bytes that were written are lost' "$SCRATCH/mount.log" ||
    fail "it does not say so: $(cat "$SCRATCH/mount.log")"

# Writers to a server that is silent: the mount goes on answering what it knows, each of them can be
# killed, and it can be unmounted.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

WRITERS=${WRITERS:-200}
CACHE_MEBIBYTES=64

need_fuse
mkdir -p "$SCRATCH/served/directory"
echo cached >"$SCRATCH/served/file"
serve --squash none "dir:$SCRATCH/served"
mounted --cache "${CACHE_MEBIBYTES}m" "nfs://127.0.0.1:$PORT/?actimeo=600"
for number in $(seq "$WRITERS"); do : >"$MOUNT/new-$number"; done
ls -l "$MOUNT" "$MOUNT/directory" >"$SCRATCH/before"
# A descriptor to which nothing is written.
exec 9<"$MOUNT/directory"

# Opening asks the server: all have opened before it falls silent, and then write at once.
mkfifo "$SCRATCH/go"
exec 8<>"$SCRATCH/go"
writers=()
for number in $(seq "$WRITERS"); do
    {
        exec 7<"$SCRATCH/go" 8>&- 9<&- >"$MOUNT/new-$number"
        : 2>"$SCRATCH/opened-$number"
        read -r -u 7 || true
        exec dd if=/dev/zero bs=1M count=64 status=none
    } &
    writers+=($!)
done
disown "${writers[@]}"
until [ "$(ls "$SCRATCH" | grep -c '^opened-')" = "$WRITERS" ]; do sleep 0.1; done
kill -STOP "$SERVER"
exec 8>&-
# Time to fill the cache, and the queue.
sleep 10
for process in "${writers[@]}"; do
    kill -0 "$process" || fail 'a writer did not wait for the server'
done
most=$(awk '/^VmHWM:/ { print int($2 / 1024) }' "/proc/$MOUNTER/status")
echo "$most MiB resident at most"
# A write of 1 MiB of each is received, whatever memory that takes.
[ "$most" -le $((CACHE_MEBIBYTES + WRITERS + 64)) ] || fail "$most MiB are resident"

# The limits only end what hangs: on a busy machine everything is many times slower.
# Opening a directory needs no server; the kernel asks the mount each time.
timeout 120 perl -e 'opendir(my $d, $ARGV[0]) or die "$!\n"' "$MOUNT/directory" ||
    fail 'the mount does not answer an opendir'
timeout 120 stat "$MOUNT/directory" >"$SCRATCH/stat" || fail 'the mount does not answer a stat'
exec 9<&-

kill -KILL "${writers[@]}"
waited=0
for process in "${writers[@]}"; do
    while kill -0 "$process" 2>/dev/null; do
        [ $((waited += 1)) -le 1200 ] || fail 'a writer cannot be killed'
        sleep 0.1
    done
done
timeout 120 stat "$MOUNT/directory" >"$SCRATCH/stat" || fail 'the mount does not answer after that'

# Data was written, and there is nobody to bring it to: said, and over within bounded time.
status=0
timeout 120 "$PAGEWELL" umount "$MOUNT" 2>"$SCRATCH/umount.err" || status=$?
[ "$status" = 1 ] || fail "data was lost, and umount answered $status: $(cat "$SCRATCH/umount.err")"
grep -q 'is unmounted: .* bytes that were written are lost' "$SCRATCH/umount.err" ||
    fail "umount does not say so: $(cat "$SCRATCH/umount.err")"
! grep -qF " $MOUNT " /proc/mounts || fail 'it is still mounted'
timeout 120 tail --pid="$MOUNTER" -f /dev/null || fail 'the mount does not end'
status=0
wait "$MOUNTER" || status=$?
MOUNTER=
[ "$status" = 1 ] || fail "data was lost, and the mount ended with status $status"
grep -q 'bytes that were written are lost' "$SCRATCH/mount.log" || fail 'it does not say so'
kill_server

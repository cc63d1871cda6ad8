# Pages of an export on a local disk: a mount that was killed reads nothing again that has not
# changed, and nothing old of what has.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
mkdir "$SCRATCH/served"
head -c 3000000 /dev/urandom >"$SCRATCH/served/large"
for number in $(seq 50); do head -c 3000 /dev/urandom >"$SCRATCH/served/small-$number"; done
cp -r "$SCRATCH/served" "$SCRATCH/expected"
serve --squash none "dir:$SCRATCH/served"

mount_again() {
    mounted --cache-dir "$SCRATCH/tier" --cache-dir-size 64m "nfs://127.0.0.1:$PORT/"
}
killed() {
    kill -KILL "$MOUNTER"
    wait "$MOUNTER" || true
    "$PAGEWELL" umount --lazy "$MOUNT" || fail 'umount of what was killed'
}
# counted NAME: of the mount.
counted() {
    "$PAGEWELL" counters --process "$MOUNTER" --json | tr ',{' '\n\n' |
        sed -n "s/^ *\"pagewell_$1\": *\([0-9]*\).*/\1/p" | head -n 1
}
# READs that the server was asked for.
reads() {
    "$PAGEWELL" counters --process "$SERVER" | awk '$1 == "read" { print $2; exit }'
}
all_is_there() { diff -r "$SCRATCH/expected" "$MOUNT" || fail 'other bytes'; }

# What has changed within a minute is not kept.
sleep 62
mount_again
all_is_there
waited=0
until [ "$(counted tier_writes_total)" = 96 ]; do
    [ $((waited += 1)) -le 1200 ] || fail "$(counted tier_writes_total) pages are kept"
    sleep 0.1
done
killed
before=$(reads)
mount_again
all_is_there
[ "$(reads)" = "$before" ] || fail "$(reads) READs, and $before before the restart"
killed
# In the middle, of the same length; and of another.
printf changed | tee "$SCRATCH/expected/large" |
    dd of="$SCRATCH/served/large" bs=1 seek=1000000 conv=notrunc status=none
cp "$SCRATCH/served/large" "$SCRATCH/expected/large"
echo more | tee -a "$SCRATCH/expected/small-7" >>"$SCRATCH/served/small-7"
mount_again
all_is_there
# The other 49 files have not changed.
[ "$(counted tier_hits_total)" -ge 49 ] || fail "$(counted tier_hits_total) pages of 49"
[ "$(reads)" -gt "$before" ] || fail 'nothing was read again'
unmounted
stop_server

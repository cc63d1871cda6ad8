# How mounts end: umount waits and names what is lost, and leaves alone what is not ours.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse

# In the background, which is where nobody would be told.
"$PAGEWELL" mount ram:8m "$MOUNT" 2>"$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
process=$(pgrep -f "mount ram:8m $MOUNT") || fail 'no process of the mount'
"$PAGEWELL" counters --process "$process" >"$SCRATCH/counters" || fail 'counters without --http'
grep -qF 'pagewell' "$SCRATCH/counters" || fail "$(cat "$SCRATCH/counters")"
ln -s "$MOUNT" "$SCRATCH/link"
"$PAGEWELL" umount "$SCRATCH/link" || fail 'a symbolic link to the mount'
! grep -qF " $MOUNT " /proc/mounts || fail 'it is still mounted'
# One that nobody has waited for has no program any more.
! readlink "/proc/$process/exe" || fail 'its process still runs'
! "$PAGEWELL" counters --process "$process" >/dev/null 2>"$SCRATCH/err" || fail 'counters of nobody'
grep -qF 'is no server or mount' "$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"

! "$PAGEWELL" umount /proc 2>"$SCRATCH/err" || fail 'unmounted /proc'
grep -qF 'mount of proc, not of pagewell' "$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"

mounted --read-only -o rw ram:8m
! touch "$MOUNT/file" 2>/dev/null || fail 'rw took read-only back'
kill -HUP "$MOUNTER"
mount_ended

is_root || exit 0
# A signal takes away the mount that it is for, wherever that is now, and no other.
mkdir "$SCRATCH/above" "$SCRATCH/above/mnt"
(
    MOUNT=$SCRATCH/above/mnt
    mounted ram:8m
    below=$MOUNTER
    mounted ram:1m
    over=$MOUNTER MOUNTER=
    kill -TERM "$below"
    for _ in $(seq 2400); do grep -qF 'lies over' "$SCRATCH/mount.log" && break; sleep 0.05; done
    grep -qF 'lies over' "$SCRATCH/mount.log" || fail 'nothing is said of the mount above'
    [ "$(grep -cF " $MOUNT " /proc/mounts)" = 2 ] || fail 'another mount was taken away'
    "$PAGEWELL" umount "$MOUNT"
    "$PAGEWELL" umount "$MOUNT"
    wait "$over" || fail 'the mount above'
    wait "$below" || fail 'the mount below'
    mounted ram:8m
    mv "$SCRATCH/above" "$SCRATCH/moved"
    kill -TERM "$MOUNTER"
    mount_ended
    ! grep -qF "$SCRATCH/moved/mnt" /proc/mounts || fail 'it is still mounted by its new name'
)
# One whose program cannot be asked, as its names are in another network.
unshare --net "$PAGEWELL" mount ram:8m "$MOUNT" 2>"$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
status=0
"$PAGEWELL" umount "$MOUNT" 2>"$SCRATCH/err" || status=$?
[ "$status" = 1 ] || fail "umount answered $status though the program could not be asked"
grep -qF 'not known whether all was written' "$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
# One whose program has died.
mounted ram:8m
kill -KILL "$MOUNTER"
wait "$MOUNTER" 2>/dev/null || true
MOUNTER=
status=0
"$PAGEWELL" umount "$MOUNT" 2>"$SCRATCH/err" || status=$?
[ "$status" = 1 ] || fail "umount answered $status though the program was gone"
grep -qF 'not known whether all was written' "$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
! grep -qF " $MOUNT " /proc/mounts || fail 'a mount without a program stays'
# Another user is told whose mount it is. The helper would say that there is none.
if setpriv --reuid 65534 --clear-groups test -x "$PAGEWELL"; then
    mounted ram:8m
    ! setpriv --reuid 65534 --clear-groups "$PAGEWELL" umount "$MOUNT" 2>"$SCRATCH/err" ||
        fail 'another user has unmounted it'
    grep -qF 'user 0 mounted it' "$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
    unmounted
fi
# A disk image whose file system is full.
mkdir "$SCRATCH/small"
mount -t tmpfs -o size=4m none "$SCRATCH/small"
full_ended() {
    umount "$SCRATCH/small"
}
truncate -s 64M "$SCRATCH/small/disk.img"
"$PAGEWELL" mount "image:$SCRATCH/small/disk.img" "$MOUNT" 2>"$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
# A program that looks at what close(2) answers is told, too.
! dd if=/dev/urandom of="$MOUNT/disk.img" bs=1M count=27 conv=notrunc 2>"$SCRATCH/dd" || fail 'close said nothing'
status=0
"$PAGEWELL" umount "$MOUNT" 2>"$SCRATCH/err" || status=$?
[ "$status" = 1 ] || fail "umount answered $status when data was lost: $(cat "$SCRATCH/err")"
grep -qiE 'no space|lost' "$SCRATCH/err" || fail "it does not say what is lost: $(cat "$SCRATCH/err")"
grep -qF 'is unmounted' "$SCRATCH/err" || fail "it does not say that it is unmounted: $(cat "$SCRATCH/err")"
# What the image lies on is in use by nobody now.
full_ended

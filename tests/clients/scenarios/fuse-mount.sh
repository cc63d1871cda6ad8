# Mounts as people use them: images, read-only, in the background, busy, unmounted by a signal and
# by others, unlinked files, mistakes.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
make_tree "$SCRATCH/tree" 3000
make_iso "$SCRATCH/image.iso" "$SCRATCH/tree"
sums "$SCRATCH/tree" >"$SCRATCH/expected"

# An image, with the counters over HTTP: every byte, and nothing can be changed.
mounted --http 127.0.0.1:0 "$SCRATCH/image.iso"
sums "$MOUNT" | cmp - "$SCRATCH/expected"
[ "$(ls "$MOUNT/many" | wc -l)" = 3000 ] || fail 'names are missing'
[ "$(readlink "$MOUNT/sub/link")" = ../hello.txt ] || fail 'the link'
[ "$(stat -c %i "$MOUNT/hello.txt")" = "$(ls -i "$MOUNT/hello.txt" | cut -d' ' -f1)" ] || fail 'inode numbers'
for change in "rm $MOUNT/hello.txt" "touch $MOUNT/new" "truncate -s 0 $MOUNT/hello.txt"; do
    ! $change 2>"$SCRATCH/err" || fail "it was changed: $change"
    grep -q 'Read-only file system' "$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
done
http=$(sed -nE 's,.*metrics http://([^/]+)/metrics.*,\1,p' "$SCRATCH/mount.log")
"$PAGEWELL" counters --connect "$http" --json | tr ',{' '\n\n' >"$SCRATCH/counters"
counter() { sed -nE "s/.*\"$1\": *([0-9]+).*/\1/p" "$SCRATCH/counters" | head -n 1; }
# Opening is free, and a listing brings the attributes: few more requests than files to read.
[ "$(counter pagewell_fuse_opens_total)" -le 1 ] || fail "$(counter pagewell_fuse_opens_total) opens"
[ "$(counter pagewell_fuse_lookups_total)" -le 500 ] || fail "$(counter pagewell_fuse_lookups_total) lookups"
[ "$(counter pagewell_fuse_closes_total)" = 0 ] || fail 'closing is not free'
# Busy: umount says by whom, and a signal takes it away all the same.
(cd "$MOUNT" && exec sleep 300) &
sleeper=$!
until [ "$(readlink "/proc/$sleeper/cwd")" = "$MOUNT" ]; do sleep 0.05; done
! "$PAGEWELL" umount "$MOUNT" 2>"$SCRATCH/err" || fail 'unmounted while in use'
grep -qF "in use by sleep ($sleeper)" "$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
kill -TERM "$MOUNTER"
until ! grep -qF " $MOUNT " /proc/mounts; do sleep 0.05; done
kill -0 "$MOUNTER" || fail 'it ended although a program uses it'
kill "$sleeper"
mount_ended
grep -qF "in use by sleep ($sleeper)" "$SCRATCH/mount.log" || fail 'the signal says nothing'

# Small reads here and there of an image that is in memory: after two in a region the kernel has the
# rest of it, and each byte is that of the file, also at its end.
mkdir "$SCRATCH/around"
head -c 3000777 /dev/urandom >"$SCRATCH/around/file"
make_iso "$SCRATCH/around.iso" "$SCRATCH/around"
mounted "$SCRATCH/around.iso"
cmp "$MOUNT/file" "$SCRATCH/around/file"
python3 - "$MOUNT/file" "$SCRATCH/around/file" <<'END'
import os, random, sys
files = [os.open(name, os.O_RDONLY) for name in sys.argv[1:]]
size = os.fstat(files[1]).st_size
os.posix_fadvise(files[0], 0, 0, os.POSIX_FADV_DONTNEED)
os.posix_fadvise(files[0], 0, 0, os.POSIX_FADV_RANDOM)
places = [page * 4096 for page in range(size // 4096 + 1)]
random.Random(1).shuffle(places)
for place in places:
    mounted, expected = (os.pread(file, 4096, place) for file in files)
    assert mounted == expected, place
END
"$PAGEWELL" counters --process "$MOUNTER" --json | tr ',{' '\n\n' >"$SCRATCH/counters"
[ "$(counter pagewell_fuse_around_bytes_total)" -gt 2000000 ] || fail 'nothing is put around reads'
# 733 pages were read, after the whole file.
[ "$(counter pagewell_fuse_reads_total)" -lt 250 ] || fail "$(counter pagewell_fuse_reads_total) reads"
unmounted

# Memory: unlinked files live on while they are open; SIGTERM ends it.
mounted ram:64m
cp -r "$SCRATCH/tree/." "$MOUNT/"
sums "$MOUNT" | cmp - "$SCRATCH/expected"
exec 7<>"$MOUNT/hello.txt"
rm "$MOUNT/hello.txt"
printf 'still' >&7
[ "$(cat "/proc/$$/fd/7")" = $'stillo' ] || [ "$(cat "/proc/$$/fd/7")" = 'still' ] || fail 'an unlinked file'
[ "$(stat -L -c %h "/proc/$$/fd/7")" = 0 ] || fail 'links of an unlinked file'
exec 7>&-
rm -r "$MOUNT/many"
kill -TERM "$MOUNTER"
mount_ended

# A directory, in the background, and what another program does below is seen.
mkdir "$SCRATCH/below"
"$PAGEWELL" mount "$SCRATCH/below" "$MOUNT" 2>>"$SCRATCH/mount.log"
grep -qF " $MOUNT fuse.pagewell " /proc/mounts || fail 'not mounted when the command returned'
echo one >"$MOUNT/file"
echo longer >"$SCRATCH/below/file"
[ "$(cat "$MOUNT/file")" = longer ] || fail 'a change below is not seen'
rm "$SCRATCH/below/file"
[ ! -e "$MOUNT/file" ] || fail 'a removal below is not seen'
exec 7>"$MOUNT/open"
rm "$MOUNT/open"
echo text >&7
[ "$(cat "/proc/$$/fd/7")" = text ] || fail 'an unlinked file of a directory'
exec 7>&-
"$PAGEWELL" umount "$MOUNT"

# Read-only although the source is not.
mounted --read-only "$SCRATCH/below"
! touch "$MOUNT/x" 2>"$SCRATCH/err" || fail 'it was changed'
grep -q 'Read-only file system' "$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
unmounted

# A program that waits for storage which does not answer can be killed.
head -c 2000000 /dev/urandom >"$SCRATCH/tree/big"
serve --squash none "dir:$SCRATCH/tree"
mounted "nfs://127.0.0.1:$PORT/"
exec 7<"$MOUNT/big"
kill -STOP "$SERVER"
timeout 600 cat <&7 >/dev/null &
waiter=$!
reader=
until [ -n "$reader" ]; do sleep 0.05; reader=$(pgrep -P "$waiter" cat || true); done
until grep -q '^State:.D' "/proc/$reader/status"; do sleep 0.05; done
kill -KILL "$reader"
for _ in $(seq 2400); do [ -e "/proc/$reader" ] || break; sleep 0.05; done
[ ! -e "/proc/$reader" ] || fail 'a killed program still waits'
wait "$waiter" || true
kill -KILL "$MOUNTER"
wait "$MOUNTER" 2>/dev/null || true
MOUNTER=
exec 7<&-
kill -CONT "$SERVER"
stop_server

# That left a mount without a program; the next one takes it away.
refuses() { # STATUS TEXT ARGUMENT...
    local expected=$1 text=$2 status=0
    shift 2
    timeout 120 "$PAGEWELL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null || status=$?
    cat "$SCRATCH/err"
    [ "$status" = "$expected" ] || fail "status $status instead of $expected: $*"
    [ "$(wc -l <"$SCRATCH/err")" = 1 ] || fail "not one line: $*"
    [ ! -s "$SCRATCH/out" ] || fail "something on standard output: $*"
    grep -qF -- "$text" "$SCRATCH/err" || fail "'$text' is not named: $*"
}
! ls "$MOUNT" >"$SCRATCH/out" 2>&1 || fail 'a mount without a program can be read'
"$PAGEWELL" mount ram:1m "$MOUNT" 2>"$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
grep -q 'took away a mount whose program had died' "$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
refuses 1 'ram:1m is mounted there already' mount ram:1m "$MOUNT"
"$PAGEWELL" umount "$MOUNT"
refuses 1 "nothing is mounted on $MOUNT" umount "$MOUNT"
refuses 1 "$SCRATCH/absent" mount "$SCRATCH/absent" "$MOUNT"
refuses 1 "$SCRATCH/absent" mount --foreground ram:1m "$SCRATCH/absent"
refuses 1 'not a directory' mount ram:1m "$SCRATCH/expected"
refuses 1 "$SCRATCH/expected" mount "iso:$SCRATCH/expected" "$MOUNT"
refuses 2 'ram:lots' mount ram:lots "$MOUNT"
refuses 2 '-o nonsense' mount -o ro,nonsense ram:1m "$MOUNT"
refuses 2 --read-only mount --readonly ram:1m "$MOUNT"
refuses 2 MOUNTPOINT mount ram:1m
refuses 2 192.0.2.1 mount --http 192.0.2.1 ram:1m "$MOUNT"
! grep -qF " $MOUNT " /proc/mounts || fail 'something is mounted'

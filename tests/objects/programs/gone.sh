# A store that is killed while files of its bucket are written, and while it is unmounted.
. "$(dirname "$0")/../lib.sh"

need_fuse
start_store
URL=$(bucket '' retry=3s age=1s)
mount_bucket "$URL"

head -c 30000000 /dev/urandom >"$SCRATCH/expected"
cp "$SCRATCH/expected" "$MOUNT/large"
printf 'old text\n' >"$MOUNT/small"
sync "$MOUNT/small"

# What a program writes meanwhile is an error at fsync, and in the store after a later fsync.
python3 - "$MOUNT" "$(pgrep -P "$STORE")" <<'PROGRAM'
import errno, os, signal, sys
mount, store = sys.argv[1], int(sys.argv[2])
small = os.open(f"{mount}/small", os.O_RDWR)
large = os.open(f"{mount}/large", os.O_RDWR)
os.kill(store, signal.SIGKILL)
os.write(small, b"NEW")
os.pwrite(large, b"x" * 3000000, 11000000)
for file in (small, large, small):
    try:
        os.fsync(file)
        sys.exit("fsync succeeded without a store")
    except OSError as error:
        assert error.errno == errno.EIO, error
assert os.pread(small, 100, 0) == b"NEW text\n"
# close fails, too; what was written stays.
for file in (small, large):
    try:
        os.close(file)
        sys.exit("close succeeded without a store")
    except OSError as error:
        assert error.errno == errno.EIO, error
PROGRAM
grep -q 'cannot connect' "$SCRATCH/mount.log" || fail 'the log says nothing of the store'
wait "$STORE" 2>/dev/null || true
start_store
head -c 3000000 /dev/zero | tr '\0' x | dd of="$SCRATCH/expected" bs=1000000 seek=11 conv=notrunc status=none
sync "$MOUNT/small" "$MOUNT/large"
says "$BUCKET/small" 'NEW text'
cmp "$SCRATCH/expected" "$BUCKET/large"

# What cannot be sent when it is unmounted waits for the next start, which the log says.
python3 - "$MOUNT" "$(pgrep -P "$STORE")" <<'PROGRAM'
import os, signal, sys
mount, store = sys.argv[1], int(sys.argv[2])
files = [os.open(f"{mount}/{name}", os.O_RDWR | os.O_CREAT) for name in ("small", "large", "new")]
os.kill(store, signal.SIGKILL)
for file in files:
    os.write(file, b"LAST")
    try:
        os.close(file)
    except OSError:
        pass
PROGRAM
wait "$STORE" 2>/dev/null || true
unmounted
grep -q 'changed files wait in .* for the next start' "$SCRATCH/mount.log" || fail 'no word of what waits'
start_store
mount_bucket "$URL"
printf LAST | dd of="$SCRATCH/expected" conv=notrunc status=none
[ "$(cat "$MOUNT/small" "$MOUNT/new")" = 'LASTtext
LAST' ] || fail "small: $(cat "$MOUNT/small")"
cmp "$SCRATCH/expected" "$MOUNT/large"
sync "$MOUNT/small" "$MOUNT/large" "$MOUNT/new"
cmp "$SCRATCH/expected" "$BUCKET/large"
unmounted
nothing_staged

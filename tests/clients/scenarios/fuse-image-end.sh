# Writes across the end of a disk image, whose length is no multiple of a page: cut there, and what
# is behind it is refused at once, however a program writes, and however it is mounted.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
cat >"$SCRATCH/end.py" <<'END'
import errno, mmap, os, sys

path, length = sys.argv[1], int(sys.argv[2])
PAGE = 4096

def aligned(count, letter):
    whole = mmap.mmap(-1, -(-count // PAGE) * PAGE)
    whole.write(letter * count)
    return memoryview(whole)[:count]

def write(flags, offset, count, letter):
    file = os.open(path, os.O_RDWR | flags)
    try:
        done = os.pwrite(file, aligned(count, letter), offset)
    except OSError as error:
        done = errno.errorcode[error.errno]
    os.fsync(file)
    size = os.fstat(file).st_size
    assert size == length, f"{flags:o} {offset}+{count}: {size} bytes long"
    os.close(file)
    return done

last = length // PAGE * PAGE
expected = bytearray(length)
for letter, flags in ((b"a", 0), (b"b", os.O_DIRECT), (b"c", os.O_SYNC), (b"d", os.O_APPEND)):
    for offset, count in (
        (last - 2 * PAGE, 4 * PAGE),
        (last, PAGE),
        (last, 512),
        (last - PAGE, 3 << 20),
        (last + PAGE, PAGE),
        (1 << 40, PAGE),
    ):
        done = write(flags, offset, count, letter)
        if flags == os.O_APPEND or offset >= length:
            assert done == "ENOSPC", f"{letter} {offset}+{count}: {done}"
            continue
        fits = min(count, length - offset)
        assert done == fits, f"{letter} {offset}+{count}: {done}, not {fits}"
        expected[offset:offset + fits] = letter * fits

# What is stored in the last page behind the end goes nowhere.
file = os.open(path, os.O_RDWR)
pages = mmap.mmap(file, length)
pages[last:length] = b"m" * (length - last)
pages.flush()
pages.close()
expected[last:length] = b"m" * (length - last)
for make_longer in (
    lambda: os.ftruncate(file, length + 1),
    lambda: os.posix_fallocate(file, length - 10, PAGE),
    lambda: os.pwrite(file, b"x", length),
):
    try:
        make_longer()
    except OSError as error:
        assert error.errno in (errno.EINVAL, errno.ENOSPC), error
    else:
        raise SystemExit("it was made longer")
os.fsync(file)
os.close(file)
with open(path, "rb") as image:
    assert image.read() == expected, "other bytes"
sys.stdout.buffer.write(expected)
END
length=$((10 * 4096 + 1000))
for options in '' --kernel-write-back --no-passthrough '-o sync' '-o attr_timeout=0'; do
    truncate -s 0 "$SCRATCH/disk.img"
    truncate -s $length "$SCRATCH/disk.img"
    # shellcheck disable=SC2086 # words
    mounted $options "image:$SCRATCH/disk.img"
    python3 "$SCRATCH/end.py" "$MOUNT/disk.img" $length >"$SCRATCH/expected" || fail "mount $options"
    unmounted
    same_file "$SCRATCH/expected" "$SCRATCH/disk.img"
done

# Of files that grow, the kernel keeps what is written, and a full source is an error all the same.
mounted --kernel-write-back ram:1m
dd if=/dev/zero of="$MOUNT/file" bs=1M count=3 conv=fsync 2>"$SCRATCH/err" && fail 'more than fits'
grep -q 'No space left' "$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
unmounted

# Programs write, fsync and read files while these, and the directories above them, are renamed.
. "$(dirname "$0")/../lib.sh"

need_fuse
start_store
mount_bucket "$(bucket)"

# Each line is in the store when fsync has returned, wherever its file is by then.
python3 - "$MOUNT" "$BUCKET" <<'PROGRAM'
import mmap, os, sys, threading
mount, bucket = sys.argv[1:]
WRITERS, MOVES = 4, 12
os.makedirs(f"{mount}/d0/sub")
for number in range(30):
    with open(f"{mount}/d0/sub/other{number}", "w") as file:
        file.write("another file\n")
is_over, are_open = threading.Event(), threading.Event()
lines = [0] * WRITERS
failed = []


def write(number):
    file = os.open(f"{mount}/d0/sub/log{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        while not is_over.is_set():
            os.write(file, b"%07d\n" % lines[number])
            os.fsync(file)
            lines[number] += 1
    except OSError as error:
        failed.append(error)
    os.close(file)


def read():
    # Past the kernel's own cache, which knows nothing of renames.
    paths = [f"{mount}/d0/sub/other{number}" for number in range(3)]
    page = mmap.mmap(-1, 4096)
    files = []
    try:
        files = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in paths]
        are_open.set()
        while not is_over.wait(0.002):
            for file in files:
                count = os.preadv(file, [page], 0)
                assert page[:count] == b"another file\n", page[:count]
    except (AssertionError, OSError) as error:
        failed.append(error)
    for file in files:
        os.close(file)


threads = [
    threading.Thread(target=write, args=(number,), daemon=True) for number in range(WRITERS)
]
threads.append(threading.Thread(target=read, daemon=True))
for thread in threads:
    thread.start()
while not are_open.wait(0.1) and not failed:
    pass
for move in range(MOVES):
    before = list(lines)
    while any(a == b for a, b in zip(before, lines)) and not failed:
        is_over.wait(0.01)
    if move % 3 == 2:
        # One log goes to another name, and the next one with that name is another file.
        os.rename(f"{mount}/d{move}/sub/log0", f"{mount}/d{move}/sub/log0.old")
        with open(f"{mount}/d{move}/sub/log0", "w") as file:
            file.write("the next log\n")
        os.rename(f"{mount}/d{move}/sub/log0", f"{mount}/d{move}/sub/next")
        os.rename(f"{mount}/d{move}/sub/log0.old", f"{mount}/d{move}/sub/log0")
    os.rename(f"{mount}/d{move}", f"{mount}/d{move + 1}")
is_over.set()
for thread in threads:
    thread.join()
assert not failed, failed
assert os.listdir(mount) == [f"d{MOVES}"], os.listdir(mount)
for number in range(WRITERS):
    expected = b"".join(b"%07d\n" % line for line in range(lines[number]))
    for root in (mount, bucket):
        with open(f"{root}/d{MOVES}/sub/log{number}", "rb") as file:
            assert file.read() == expected, f"log{number} in {root} is not whole"
PROGRAM

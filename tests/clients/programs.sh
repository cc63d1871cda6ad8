# Programs that people use, in a directory that is mounted. Read by scenarios after lib.sh.

# use_git DIRECTORY: clones this repository's last commits into it, changes it, and has git check.
use_git() {
    local work=$1/git clone
    mkdir "$work"
    git init -q -b trunk "$SCRATCH/origin"
    # What it makes does not depend on who runs it.
    clone=(git -c user.name=tester -c user.email=tester@example.org -c core.fsync=all)
    cp -r "$REPOSITORY/crates/fs" "$REPOSITORY/docs" "$SCRATCH/origin"
    "${clone[@]}" -C "$SCRATCH/origin" add .
    "${clone[@]}" -C "$SCRATCH/origin" commit -q -m first
    git clone -q --no-local "$SCRATCH/origin" "$work/clone"
    [ -z "$(git -C "$work/clone" status --porcelain)" ] || fail 'git sees changes in a fresh clone'
    mv "$work/clone/docs" "$work/clone/documents"
    echo more >>"$work/clone/documents/ARCHITECTURE.md"
    "${clone[@]}" -C "$work/clone" add -A
    "${clone[@]}" -C "$work/clone" commit -q -m second
    git -C "$work/clone" checkout -q HEAD~1
    [ -d "$work/clone/docs" ] && [ ! -e "$work/clone/documents" ] || fail 'git checkout left files'
    git -C "$work/clone" checkout -q trunk
    git -C "$work/clone" gc -q
    git -C "$work/clone" fsck --strict
    [ -z "$(git -C "$work/clone" status --porcelain)" ] || fail 'git sees changes after gc'
    rm -r "$SCRATCH/origin" "$work"
}

# use_rust DIRECTORY: builds and tests a small crate with everything in it.
use_rust() {
    local work=$1/rust
    mkdir -p "$work/src"
    cat >"$work/Cargo.toml" <<'EOF'
[package]
name = "counted"
version = "0.1.0"
edition = "2021"
[workspace]
EOF
    cat >"$work/src/lib.rs" <<'EOF'
pub fn count(text: &str) -> usize { text.split_whitespace().count() }
#[test]
fn words_are_counted() { assert_eq!(count("one two  three"), 3); }
EOF
    cat >"$work/src/main.rs" <<'EOF'
fn main() { println!("{}", counted::count("four words are here")); }
EOF
    (
        cd "$work"
        export CARGO_TARGET_DIR=$work/target CARGO_INCREMENTAL=1
        cargo build -q --offline
        [ "$(target/debug/counted)" = 4 ] || fail 'the program that was built does not count'
        cargo test -q --offline >"$SCRATCH/cargo.log" 2>&1 || { cat "$SCRATCH/cargo.log"; fail 'cargo test'; }
        # Nothing has changed: cargo goes by the times of files.
        cargo build --offline 2>&1 | tee "$SCRATCH/cargo.log" | grep -q Compiling &&
            { cat "$SCRATCH/cargo.log"; fail 'cargo built again what had not changed'; }
        sleep 1.1
        sed -i 's/four words/five words now/' src/main.rs
        cargo build -q --offline
        [ "$(target/debug/counted)" = 5 ] || fail 'cargo did not see a change'
    )
    rm -r "$work"
}

# use_sqlite DIRECTORY: a database in each journal mode, written by two programs at a time.
use_sqlite() {
    local work=$1/sqlite mode writer sum
    mkdir "$work"
    # WAL shares memory between programs, which a network file system cannot promise them on two
    # machines; on one mount it has to work.
    for mode in delete truncate persist wal; do
        sqlite3 "$work/$mode" "PRAGMA journal_mode=$mode; PRAGMA synchronous=full;
            CREATE TABLE rows(number INTEGER, text TEXT);" >"$SCRATCH/sqlite.log"
        writers=()
        for writer in 1 2; do
            {
                for number in $(seq 40); do
                    echo ".timeout 60000"
                    echo "INSERT INTO rows VALUES($number, hex(randomblob(500)));"
                done
            } | sqlite3 -bail "$work/$mode" >"$SCRATCH/sqlite.$writer.log" 2>&1 &
            writers+=($!)
        done
        for writer in "${writers[@]}"; do
            wait "$writer" || { cat "$SCRATCH"/sqlite.*.log; fail "SQLite in mode $mode"; }
        done
        sum=$(sqlite3 "$work/$mode" 'PRAGMA integrity_check; SELECT count(*), sum(number) FROM rows')
        [ "$sum" = $'ok\n80|1640' ] || fail "SQLite in mode $mode: $sum"
    done
    rm -r "$work"
}

# use_fsx DIRECTORY OPERATIONS: random operations on one file, checked against a model. fsx.toml, or
# the file FSX_CONFIGURATION, says how often each is used.
use_fsx() {
    local tools configuration=${FSX_CONFIGURATION:-$CLIENTS/fsx.toml}
    tools=$("$REPOSITORY/tests/tools.sh" fsx)
    # A seed of its own for each run; it is in the log of one that fails.
    "$tools/fsx" -N "$2" -f "$configuration" -P "$SCRATCH" "$1/fsx" >"$SCRATCH/fsx.log" 2>&1 ||
        { tail -n 40 "$SCRATCH/fsx.log"; fail 'fsx'; }
    grep -q 'All operations completed A-OK' "$SCRATCH/fsx.log" || fail 'fsx did not say that it ended'
    rm -f "$1/fsx"
}

# use_fio DIRECTORY [OPTION...]: two writers at random places, who read back what they wrote.
use_fio() {
    local work=$1
    shift
    fio --name=verify --directory="$work" --size=16m --numjobs=2 --rw=randwrite --bs=4k-128k \
        --verify=crc32c --do_verify=1 --verify_fatal=1 --verify_state_save=0 \
        --ioengine=psync --fallocate=none "$@" \
        >"$SCRATCH/fio.log" 2>&1 || { cat "$SCRATCH/fio.log"; fail 'fio'; }
    rm -f "$work"/verify.*
}

# use_posix [--fails TEST]... SOURCE [OPTION...]: the POSIX suite pjdfstest on a mount of a source. The
# tests that are named have to fail. Needs fuse.sh.
use_posix() {
    local expected= tools
    while [ "$1" = --fails ]; do
        expected="$expected, \"$2\""
        shift 2
    done
    is_root || skip 'the POSIX suite switches users, which needs root'
    tools=$("$REPOSITORY/tests/tools.sh" pjdfstest)
    sed "s/^expected_failures = .*/expected_failures = [${expected#, }]/" \
        "$CLIENTS/pjdfstest.toml" >"$SCRATCH/pjdfstest.toml"

    # A short path, since the suite makes sockets, whose paths have 108 bytes at most. Of 9 bytes it
    # must not be: then the suite fails to make a path of 4095 bytes, on every file system.
    rmdir "$MOUNT" 2>/dev/null || true
    MOUNT=$(mktemp -d /tmp/pagewell.XXXXXX)
    mounted --allow-other -o suid,dev "$@"
    chmod 777 "$MOUNT"
    timeout 1200 "$tools/pjdfstest" -c "$SCRATCH/pjdfstest.toml" -s /dev/shm -p "$MOUNT" \
        >"$SCRATCH/pjdfstest.log" 2>&1 || { grep -A 3 FAILED "$SCRATCH/pjdfstest.log"; fail "$*"; }
    grep '^Summary' "$SCRATCH/pjdfstest.log"
    grep -q '^Summary: 0 failed' "$SCRATCH/pjdfstest.log" || fail "no summary without failures: $*"
    unmounted
}

says() { # FILE EXPECTED
    [ "$(cat "$1")" = "$2" ] || fail "$1 says '$(cat "$1")', not '$2'"
}

# use_two ONE OTHER SERVED: two mounts of one export, which is the directory SERVED. Who opens a file
# sees what was closed before, on either.
use_two() {
    local one=$1 two=$2 served=$3 text number waited=0
    echo first >"$one/file"
    says "$two/file" first
    # The same length, so that only times tell; again and again, so that times come close.
    for text in second third_ fourth fifth_ sixth_; do
        echo $text >"$two/file"
        says "$one/file" $text
        echo ${text^^} >"$one/file"
        says "$two/file" ${text^^}
    done

    # Longer and shorter.
    head -c 3000000 /dev/urandom >"$one/big"
    same_file "$one/big" "$two/big"
    head -c 1000000 /dev/urandom >"$two/big"
    same_file "$two/big" "$one/big"
    [ "$(stat -c %s "$one/big")" = 1000000 ] || fail 'one sees an old length'
    truncate -s 100 "$one/big"
    [ "$(wc -c <"$two/big")" = 100 ] || fail 'two reads past the end'
    # What is behind the end comes back as zeros, not as old bytes.
    truncate -s 1000000 "$two/big"
    [ "$(tail -c +101 "$one/big" | tr -d '\0' | wc -c)" = 0 ] || fail 'one reads old bytes'

    # Appends of both, one after the other, as to a shared log.
    for number in $(seq 20); do
        echo "one $number" >>"$one/log"
        echo "two $number" >>"$two/log"
    done
    [ "$(wc -l <"$served/log")" = 40 ] || fail "lines of the log are missing"
    same_file "$one/log" "$two/log"

    # Names.
    mv "$one/big" "$one/renamed"
    cat "$two/renamed" >"$SCRATCH/copy"
    [ ! -e "$two/nothing-yet" ]
    echo here >"$one/nothing-yet"
    until [ -e "$two/nothing-yet" ]; do
        [ $((waited += 1)) -le 700 ] || fail 'two never sees a new name'
        sleep 0.1
    done

    # A file that is removed on one mount, and open on the same one, can be read to its end.
    head -c 2000000 /dev/urandom >"$SCRATCH/copy"
    cp "$SCRATCH/copy" "$one/open"
    exec 3<"$one/open"
    rm "$one/open"
    cat <&3 >"$SCRATCH/read"
    exec 3<&-
    same_file "$SCRATCH/copy" "$SCRATCH/read"
    rm "$one/file" "$two/log" "$one/renamed" "$two/nothing-yet"
    # The kernel tells of the last close some time after it.
    waited=0
    until [ -z "$(ls -A "$served")" ]; do
        [ $((waited += 1)) -le 1200 ] || fail "names stayed: $(ls -A "$served")"
        sleep 0.1
    done
}

# use_two_writers ONE OTHER: two mounts of one export, on which two programs write to one file at the
# same time, each its own bytes. Who opens it sees everything that was closed before. As many rounds
# as PAGEWELL_TWO_CLIENTS_ROUNDS says.
use_two_writers() {
    python3 - "$1" "$2" "${PAGEWELL_TWO_CLIENTS_ROUNDS:-300}" <<'PROGRAM'
import mmap, os, random, sys, threading

mounts, rounds = sys.argv[1:3], int(sys.argv[3])
# Records of which each has one writer: two runs, then one of each in turn, so that no page is
# anybody's alone.
RECORD, RUN, MIXED = 1000, 100, 24
RECORDS = 2 * RUN + MIXED
paths = [os.path.join(mount, "at-once") for mount in mounts]
closed = [0] * RECORDS
chance = [random.Random(1), random.Random(2)]
failures = []

def look(which, least, newest, when):
    with open(paths[which], "rb", buffering=0) as file:
        seen = file.readall()
    if len(seen) != RECORDS * RECORD:
        sys.exit(f"{when}: mount {which} sees {len(seen)} bytes")
    for record in range(RECORDS):
        bytes_of = seen[record * RECORD:(record + 1) * RECORD]
        for at in range(0, RECORD, 8):
            number = int.from_bytes(bytes_of[at:at + 8], "big")
            if not least[record] <= number <= newest:
                raise AssertionError(f"{when}: mount {which} sees {number} in record {record}, "
                                     f"{least[record]} was closed")

def records(which):
    random = chance[which]
    if random.randrange(2):
        first = random.randrange(RUN)
        return range(which * RUN + first, which * RUN + first + random.randint(1, RUN - first))
    at = 2 * RUN + 2 * random.randrange(MIXED // 2) + which
    return range(at, at + 1)

def store(which, number, at):
    # Through a mapping: the kernel writes the whole page.
    with open(paths[which], "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[at * RECORD:at * RECORD + 8] = number.to_bytes(8, "big")
        for place in range(at * RECORD + 8, (at + 1) * RECORD, 8):
            memory[place:place + 8] = number.to_bytes(8, "big")

def write(which, number):
    try:
        before = list(closed)
        look(which, before, number, f"round {number}")
        written = []
        file = os.open(paths[which], os.O_RDWR)
        for _ in range(chance[which].randint(1, 3)):
            where = records(which)
            data = number.to_bytes(8, "big") * (len(where) * RECORD // 8)
            assert os.pwrite(file, data, where.start * RECORD) == len(data)
            written += where
        os.close(file)
        for record in written:
            closed[record] = number
    except Exception as error:
        failures.append(error)

with open(paths[0], "wb") as file:
    file.write(bytes(RECORDS * RECORD))
for number in range(1, rounds + 1):
    writers = [threading.Thread(target=write, args=(which, number)) for which in (0, 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    if number % 10 == 0 and not failures:
        which = number // 10 % 2
        at = records(which)[0]
        store(which, number, at)
        closed[at] = number
    for which in (0, 1):
        if failures:
            sys.exit(str(failures[0]))
        look(which, closed, number, f"after round {number}")
os.unlink(paths[0])
PROGRAM
}

# sees_own_writes MOUNT: what fstat(2) says after a write is the time of that write, whatever else
# was told of the file in between.
sees_own_writes() {
    python3 - "$1" <<'PROGRAM'
import os, sys, time

mount = sys.argv[1]
path = os.path.join(mount, "written")
# What files are stamped with.
COARSE = 5

def list_all():
    with os.scandir(mount) as entries:
        for entry in entries:
            entry.stat()

between = {
    "stat": lambda descriptor, number: os.stat(path),
    "listing": lambda descriptor, number: list_all(),
    "chmod": lambda descriptor, number: os.fchmod(descriptor, 0o640 + number % 2),
    "link": lambda descriptor, number: os.link(path, f"{path}-{number}"),
}
descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
for name, look in between.items():
    for number in range(3):
        # What is known is older than what is written now.
        time.sleep(1.3)
        begun = time.clock_gettime_ns(COARSE)
        os.write(descriptor, b"something")
        look(descriptor, number)
        modified = os.fstat(descriptor).st_mtime_ns
        ended = time.time_ns()
        if not begun <= modified <= ended:
            sys.exit(f"write, {name}, fstat: {(begun - modified) / 1e9} s old")
os.close(descriptor)
for name in os.listdir(mount):
    if name.startswith("written"):
        os.unlink(os.path.join(mount, name))
PROGRAM
}

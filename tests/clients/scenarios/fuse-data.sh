# fsx (random operations on one file, checked against a model) and fio, which verifies what it
# wrote, on mounts of memory and of a directory.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
tools=$("$REPOSITORY/tests/tools.sh" fsx)

data() { # OPERATIONS ARGUMENT...
    local operations=$1
    shift
    mounted "$@"
    # A seed of its own for each run; it is in the log of one that fails.
    "$tools/fsx" -N "$operations" -f "$CLIENTS/fsx.toml" -P "$SCRATCH" "$MOUNT/fsx" \
        >"$SCRATCH/fsx.log" 2>&1 || { tail -n 40 "$SCRATCH/fsx.log"; fail "fsx: $*"; }
    grep -q 'All operations completed A-OK' "$SCRATCH/fsx.log" || fail "fsx: $*"
    fio --name=verify --directory="$MOUNT" --size=16m --numjobs=2 --rw=randwrite --bs=4k-128k \
        --verify=crc32c --do_verify=1 --verify_fatal=1 --ioengine=psync --fallocate=none \
        >"$SCRATCH/fio.log" 2>&1 || { cat "$SCRATCH/fio.log"; fail "fio: $*"; }
    unmounted
}

mkdir "$SCRATCH/directory"
data 100000 ram:128m
data 100000 "$SCRATCH/directory"
data 10000 --no-passthrough "$SCRATCH/directory"
data 10000 --kernel-write-back ram:128m

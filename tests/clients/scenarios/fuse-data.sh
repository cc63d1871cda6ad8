# fsx (random operations on one file, checked against a model) and fio, which verifies what it
# wrote, on mounts of memory, of a directory, and of
# exports of our own server.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"
. "$(dirname "$0")/../programs.sh"

need_fuse

# Of fsx, on each of the three that are used most; the others have a tenth.
OPERATIONS=${PAGEWELL_FSX_OPERATIONS:-10000}

data() { # OPERATIONS ARGUMENT...
    local operations=$1
    shift
    mounted "$@"
    use_fsx "$MOUNT" "$operations"
    use_fio "$MOUNT"
    unmounted
}

mkdir "$SCRATCH/directory"
data "$OPERATIONS" ram:128m
data "$OPERATIONS" "$SCRATCH/directory"
data $((OPERATIONS / 10)) --no-passthrough "$SCRATCH/directory"
data $((OPERATIONS / 10)) --kernel-write-back ram:128m
mkdir "$SCRATCH/served"
serve --squash none "/directory=dir:$SCRATCH/served" /memory=ram:128m
data "$OPERATIONS" "nfs://127.0.0.1:$PORT/directory"
# Small requests, and little memory: everything goes to the server and comes back.
data $((OPERATIONS / 10)) --cache 8m "nfs://127.0.0.1:$PORT/memory?rsize=8k&wsize=4k"
stop_server

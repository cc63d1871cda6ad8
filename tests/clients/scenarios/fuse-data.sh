# fsx (random operations on one file, checked against a model) and fio, which verifies what it
# wrote, on mounts of memory, of a directory, and of
# exports of our own server.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"
. "$(dirname "$0")/../programs.sh"

need_fuse

data() { # OPERATIONS ARGUMENT...
    local operations=$1
    shift
    mounted "$@"
    use_fsx "$MOUNT" "$operations"
    use_fio "$MOUNT"
    unmounted
}

mkdir "$SCRATCH/directory"
data 100000 ram:128m
data 100000 "$SCRATCH/directory"
data 10000 --no-passthrough "$SCRATCH/directory"
data 10000 --kernel-write-back ram:128m
mkdir "$SCRATCH/served"
serve --squash none "/directory=dir:$SCRATCH/served" /memory=ram:128m
data 100000 "nfs://127.0.0.1:$PORT/directory"
# Small requests, and little memory: everything goes to the server and comes back.
data 10000 --cache 8m "nfs://127.0.0.1:$PORT/memory?rsize=8k&wsize=4k"
stop_server

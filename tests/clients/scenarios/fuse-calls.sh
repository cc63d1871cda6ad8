# System calls of Linux that NFS version 3 does not know, on mounts of memory and of a directory.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
command -v python3 >/dev/null || skip 'there is no python3'

calls() { # ARGUMENT...
    mounted "$@"
    python3 "$(dirname "$0")/../calls.py" "$MOUNT" || fail "calls on a mount of $*"
    unmounted
}

mkdir "$SCRATCH/directory"
calls ram:64m
calls "$SCRATCH/directory"
calls --no-passthrough "$SCRATCH/directory"

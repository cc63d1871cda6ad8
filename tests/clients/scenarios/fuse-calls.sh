# System calls of Linux that NFS version 3 does not know, on mounts of memory and of a directory.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
command -v python3 >/dev/null || skip 'there is no python3'

calls() { # ARGUMENT...
    mounted "$@"
    python3 "$CLIENTS/calls.py" "$MOUNT" "${*%%:*}" || fail "calls on a mount of $*"
    unmounted
}

mkdir "$SCRATCH/directory"
calls ram:64m
calls "$SCRATCH/directory"
calls --no-passthrough "$SCRATCH/directory"

# twice KINDS FILE-SYSTEM ARGUMENT...: the same calls on a mount and on a local file system, which
# is that of the directory (none) or a tmpfs, and must answer the same.
twice() {
    local kinds=$1 filesystem=$2
    shift 2
    rm -rf "$SCRATCH/served" "$SCRATCH/local"
    mkdir "$SCRATCH/served" "$SCRATCH/local"
    mounted --allow-other "$@"
    # In a namespace of its own, so that nothing is left mounted.
    unshare -m bash -c '
        "$6" "$3" || exit
        [ "$1" = none ] || mount -t "$1" "$1" "$4" || exit
        exec python3 "$2" "$3" "$4" "$5"
    ' twice "$filesystem" "$CLIENTS/twice.py" "$MOUNT" "$SCRATCH/local" "$kinds" \
        "$CLIENTS/alone.sh" ||
        fail "other answers on a mount of $*"
    unmounted
}

# Extended attributes must not make a request of the kernel of each write.
asked_before_writes() { # ARGUMENT...
    mounted "$@"
    head -c 4000000 /dev/zero | dd bs=4000 iflag=fullblock of="$MOUNT/written" 2>/dev/null
    "$PAGEWELL" counters --process "$MOUNTER" --json | tr ',{' '\n\n' >"$SCRATCH/counters"
    rm "$MOUNT/written"
    unmounted
    sed -nE 's/.*fuse_extended_attributes_asked_total": *([0-9]+).*/\1/p' "$SCRATCH/counters"
}

for source in ram:64m "$SCRATCH/directory" "--no-passthrough $SCRATCH/directory"; do
    # shellcheck disable=SC2086 # an option and a source
    asked=$(asked_before_writes $source)
    [ "$asked" -le 3 ] || fail "1,000 writes to $source: $asked attributes were asked for"
done

is_root || skip 'without root nobody can be somebody else'
twice user,trusted,security,lists none "$SCRATCH/served"
twice user,trusted,security,lists none --no-passthrough "$SCRATCH/served"
twice user,trusted tmpfs ram:64m

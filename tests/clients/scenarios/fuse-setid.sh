# Set-user-id and set-group-id go and stay in mounts as they do in a directory of the kernel's:
# whoever changes a file, and in whatever way.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
is_root || skip 'acting as several users needs root'

setid() { # WITHOUT ARGUMENT...
    local without=$1
    shift
    mkdir "$SCRATCH/plain"
    mounted --allow-other "$@"
    # shellcheck disable=SC2086
    python3 "$CLIENTS/setid.py" "$SCRATCH/plain" "$MOUNT" $without || fail "as above: $*"
    unmounted
    rm -r "$SCRATCH/plain"
}

mkdir "$SCRATCH/directory" "$SCRATCH/served"
setid '' "$SCRATCH/directory"
setid '' --no-passthrough "$SCRATCH/directory"
setid '' -o attr_timeout=1,entry_timeout=1 "$SCRATCH/directory"
setid '' -o attr_timeout=1,entry_timeout=1 --no-passthrough "$SCRATCH/directory"
setid '' ram:16m
for source in "$SCRATCH/served" ram:16m; do
    serve --squash none "$source"
    # There are no holes in NFS version 3.
    setid punch "nfs://127.0.0.1:$PORT/?noac"
    stop_server
done

# A mount by a user who is not root, with fusermount3.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

[ -e /dev/fuse ] || skip 'there is no /dev/fuse'
command -v fusermount3 >/dev/null || skip 'there is no fusermount3'

as_user() {
    mkdir -p "$SCRATCH/home/source" "$MOUNT"
    echo hello >"$SCRATCH/home/source/file"
    mounted "$SCRATCH/home/source"
    [ "$(cat "$MOUNT/file")" = hello ] || fail 'the file cannot be read'
    echo more >>"$MOUNT/file"
    mkdir "$MOUNT/directory"
    mv "$MOUNT/file" "$MOUNT/directory/moved"
    [ "$(cat "$SCRATCH/home/source/directory/moved")" = $'hello\nmore' ] || fail 'the change is not there'
    exec 7<>"$MOUNT/directory/moved"
    rm -r "$MOUNT/directory"
    [ "$(cat <&7)" = $'hello\nmore' ] || fail 'an unlinked file'
    ! "$PAGEWELL" umount "$MOUNT" 2>"$SCRATCH/err" || fail 'unmounted while in use'
    grep -qF 'in use' "$SCRATCH/err" || fail "$(cat "$SCRATCH/err")"
    exec 7>&-
    unmounted
    # A signal does it, too.
    mounted ram:8m
    head -c 3000000 /dev/urandom >"$SCRATCH/home/random"
    cp "$SCRATCH/home/random" "$MOUNT/"
    same_file "$SCRATCH/home/random" "$MOUNT/random"
    kill -TERM "$MOUNTER"
    mount_ended
}

if [ "${1:-}" = as-user ]; then
    as_user
    exit
fi
if ! is_root; then
    [ -r /dev/fuse ] && [ -w /dev/fuse ] || skip 'this user may not use /dev/fuse'
    as_user
    exit
fi
setpriv --reuid 65534 --clear-groups test -x "$PAGEWELL" || skip 'other users cannot reach the program'
# The device as distributions make it, for everybody, where only this scenario sees it.
install -d -o 65534 -g 65534 "$SCRATCH/user"
SCRATCH=$SCRATCH/user exec unshare --mount bash -c '
    set -e
    "$1"
    mount -t tmpfs -o mode=755,dev none /mnt
    mknod -m 666 /mnt/fuse c 10 229
    mount --bind /mnt/fuse /dev/fuse
    exec setpriv --reuid 65534 --regid 65534 --clear-groups bash "$0" as-user' "$0" "$CLIENTS/alone.sh"

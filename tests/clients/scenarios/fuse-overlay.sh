# A directory on overlayfs, as the root of most containers is: the kernel reads and writes its files
# by itself, as it does those of other file systems.
if [ "$(id -u)" = 0 ] && [ -z "${ALONE:-}" ]; then
    ALONE=1 exec unshare --mount bash "$0"
fi
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
is_root || skip 'mounting an overlayfs needs root'
"$CLIENTS/alone.sh"
mkdir "$SCRATCH/layers" "$SCRATCH/merged" "$SCRATCH/plain" "$SCRATCH/above"
mount -t tmpfs none "$SCRATCH/layers"
mkdir -p "$SCRATCH"/layers/{lower,upper,work,upper2,work2}
head -c 3000000 /dev/urandom >"$SCRATCH/expected"
cp "$SCRATCH/expected" "$SCRATCH/layers/lower/file"
overlay() { # LOWER UPPER WORK PLACE
    mount -t overlay -o "lowerdir=$1,upperdir=$SCRATCH/layers/$2,workdir=$SCRATCH/layers/$3" none "$4"
}
overlay "$SCRATCH/layers/lower" upper work "$SCRATCH/merged" || skip 'there is no overlayfs'

counter() {
    "$PAGEWELL" counters --process "$MOUNTER" --json | tr ',{' '\n\n' |
        sed -nE "s/.*\"$1\": *([0-9]+).*/\1/p" | head -n 1
}
passes() { # DIRECTORY
    mounted "$1"
    cp "$SCRATCH/expected" "$1/file"
    same_file "$SCRATCH/expected" "$MOUNT/file"
    printf 'more\n' >>"$MOUNT/file"
    [ "$(tail -n 1 "$1/file" | tail -c 5)" = more ] || fail 'what was written is not beneath'
    # Where no kernel can, none of this says anything about overlayfs.
    passed=$(counter pagewell_fuse_passthrough_opens_total)
    refused=$(counter pagewell_fuse_passthrough_refused_total)
}
passes "$SCRATCH/plain"
[ "$passed" -ge 2 ] && [ "$refused" = 0 ] || skip "this kernel passes no files ($passed, $refused)"
# Such a mount can itself be a layer.
overlay "$MOUNT" upper2 work2 "$SCRATCH/above" || fail 'a mount cannot be a layer of an overlayfs'
cmp "$SCRATCH/above/file" "$SCRATCH/plain/file"
umount "$SCRATCH/above"
unmounted

passes "$SCRATCH/merged"
[ "$passed" -ge 2 ] && [ "$refused" = 0 ] || fail "on overlayfs: $passed passed, $refused refused"
unmounted
umount "$SCRATCH/merged" "$SCRATCH/layers"

# A directory of a lower layer of overlayfs. The first change copies it up: it is the same directory,
# with another birth time.
if [ "$(id -u)" = 0 ] && [ -z "${ALONE:-}" ]; then
    ALONE=1 exec unshare --mount bash "$0"
fi
. "$(dirname "$0")/../lib.sh"

is_root || skip 'mounting needs root'
"$CLIENTS/alone.sh"
mkdir "$SCRATCH/layers" "$SCRATCH/merged"
mount -t tmpfs none "$SCRATCH/layers"
mkdir -p "$SCRATCH"/layers/{lower/served,upper,work}
printf 'text\n' >"$SCRATCH/layers/lower/served/file"
options="lowerdir=$SCRATCH/layers/lower,upperdir=$SCRATCH/layers/upper,workdir=$SCRATCH/layers/work"
mount -t overlay -o "$options" none "$SCRATCH/merged" || skip 'there is no overlayfs'

serve --squash none "/dir=$SCRATCH/merged/served"
nfs-ls "$(url /dir)" | grep -q ' file$' || fail 'the lower directory cannot be listed'
printf 'new\n' >"$SCRATCH/new"
copy_in "$SCRATCH/new" /dir/first
copy_in "$SCRATCH/new" /dir/second
nfs-ls "$(url /dir)" | grep -q ' second$' || fail 'the copied directory cannot be listed'
copy_out /dir/file "$SCRATCH/file"
same_file "$SCRATCH/layers/lower/served/file" "$SCRATCH/file"
stop_server
umount "$SCRATCH/merged" "$SCRATCH/layers"

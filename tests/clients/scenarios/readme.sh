# Two tasks of README.md, as they stand there: mounting an image and an export without root, and
# copying without a mount.
. "$(dirname "$0")/../lib.sh"
. "$CLIENTS/readme.sh"

# What a user has: a home with an image in it.
as_user() {
    cd "$HOME"
    bash -e -c "$(task 'Mount a disc')" || fail 'the lines end with an error'
    ! grep -qF " $HOME/iso " /proc/mounts || fail 'the image is still mounted'
    same_file /srv/data/file "$HOME/nas/file"
    echo new >"$HOME/nas/new"
    pagewell umount "$HOME/nas"
    [ "$(cat "$SCRATCH/nas/new")" = new ] || fail 'the export has no new file'

    bash -e -c "$(task 'Copy into')" || fail 'the lines end with an error'
    same_file /srv/data/file "$HOME/boot/kernel"
    same_file /srv/data/file "$SCRATCH/nas/copy/file"
    pagewell cp -r debian.iso::/ all
    (cd all && sha256sum -c --quiet ../sums) || fail 'the sums'
}

if [ "${1:-}" = as-user ]; then
    # What is left is ended by the part that started it.
    trap - EXIT
    as_user
    exit
fi
[ -e /dev/fuse ] && command -v fusermount3 >/dev/null || skip 'no mount without root is possible'
setpriv --reuid 65534 --clear-groups test -x "$PAGEWELL" || skip 'other users cannot reach the program'
own_machine
# The device as distributions make it, for everybody.
mount -t tmpfs -o mode=755,dev none /mnt
mknod -m 666 /mnt/fuse c 10 229
mount --bind /mnt/fuse /dev/fuse

mkdir -p /srv/data "$SCRATCH/image/boot" "$SCRATCH/nas"
head -c 300000 /dev/urandom >/srv/data/file
cp /srv/data/file "$SCRATCH/image/boot/kernel"
install -d -o 65534 -g 65534 "$SCRATCH/home"
make_iso "$SCRATCH/home/debian.iso" "$SCRATCH/image"
cp /srv/data/file "$SCRATCH/nas/"
chown -R 65534:65534 "$SCRATCH/nas" "$SCRATCH/home"
cp /etc/hosts "$SCRATCH/hosts"
echo '127.0.0.1 nas' >>"$SCRATCH/hosts"
mount --bind "$SCRATCH/hosts" /etc/hosts
start_line "pagewell serve --listen 127.0.0.1:2049 --state-dir $SCRATCH/state /export=$SCRATCH/nas"
HOME=$SCRATCH/home setpriv --reuid 65534 --regid 65534 --clear-groups bash "$0" as-user
stop_server

# Two tasks of README.md, as they stand there: a folder for a virtual machine, and a root file system
# for a machine without a disk: nfsmount of klibc, which the initramfs of Debian has, finds it.
. "$(dirname "$0")/../lib.sh"
. "$CLIENTS/readme.sh"

[ -x /usr/lib/klibc/bin/nfsmount ] || skip 'nfsmount (klibc-utils) is missing'
own_machine
mkdir -p /srv/data /srv/root/sbin
echo shared >/srv/data/file
chmod -R a+rwX /srv/data
echo root >/srv/root/sbin/init
chmod 700 /srv/root/sbin
lines=$(task 'Share a folder')
[ "$(wc -l <<<"$lines")" = 2 ] || fail 'the task has other lines'
start_line "$(head -n 1 <<<"$lines")"
tail -n 1 <<<"$lines" >"$SCRATCH/mount-line"
PORT=20490 MOUNT_PORT=20490
guest readme-folder "$SCRATCH/mount-line"
[ "$(cat /srv/data/answer)" = answer ] || fail 'the guest has written nothing'
stop_server

start_port_mapper
start_line "$(task 'Boot machines')"
# It asks the port mapper and MOUNT before it asks the kernel, which may have no NFS here.
mkdir "$SCRATCH/root"
if /usr/lib/klibc/bin/nfsmount -o nolock,ro 127.0.0.1:/root "$SCRATCH/root" >"$SCRATCH/nfsmount" 2>&1; then
    # Root of the client is root there.
    [ "$(cat "$SCRATCH/root/sbin/init")" = root ] || fail 'the root of the server'
    umount "$SCRATCH/root"
else
    grep -qF 'the kernel lacks NFS v3 support' "$SCRATCH/nfsmount" || fail "$(cat "$SCRATCH/nfsmount")"
fi
mounts=$(pagewell counters --process "$SERVER" | awk '$1 == "mnt" { print $2, $4 }')
[ "$mounts" = '1 0' ] || fail "mounts and their errors: $mounts"
stop_server

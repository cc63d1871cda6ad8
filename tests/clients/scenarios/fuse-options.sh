# Words for `-o`, as lines of fstab have them, and what each changes.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
mkdir "$SCRATCH/directory"
counter() {
    "$PAGEWELL" counters --process "$MOUNTER" --json | tr ',{' '\n\n' |
        sed -nE "s/.*\"$1\": *([0-9]+).*/\1/p" | head -n 1
}
syncs() { counter pagewell_dir_syncs_total; }

# What is written, made and changed is on the device when the call has returned, and not before a
# program asks for it otherwise.
changes() { # OPTIONS
    mounted -o "$1" "$SCRATCH/directory"
    local before after
    before=$(syncs)
    mkdir "$MOUNT/made"
    after=$(syncs)
    mkdirs=$((after - before))
    python3 -c 'import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
input()
for _ in range(3): os.write(file, b"some")
print("written", flush=True)
input()' "$MOUNT/file" <"$SCRATCH/steps" >"$SCRATCH/said" &
    local writer=$!
    exec 8>"$SCRATCH/steps"
    until [ -e "$MOUNT/file" ]; do sleep 0.05; done
    before=$(syncs)
    echo >&8
    until grep -q written "$SCRATCH/said"; do sleep 0.05; done
    after=$(syncs)
    writes=$((after - before))
    echo >&8
    exec 8>&-
    wait "$writer"
    options=$(awk -v place="$MOUNT" '$2 == place { print $4 }' /proc/mounts)
    rmdir "$MOUNT/made"
    rm "$MOUNT/file"
    unmounted
}
mkfifo "$SCRATCH/steps"
changes rw,lazytime,default_permissions
[ "$mkdirs $writes" = '0 0' ] || fail "without: $mkdirs syncs for mkdir, $writes for writes"
changes dirsync
[ "$mkdirs" -gt 0 ] && [ "$writes" = 0 ] || fail "dirsync: $mkdirs and $writes"
[[ ,$options, == *,dirsync,* ]] || fail "dirsync is not in the list: $options"
changes sync
[ "$mkdirs" -gt 0 ] && [ "$writes" = 3 ] || fail "sync: $mkdirs and $writes"
[[ ,$options, == *,sync,* ]] || fail "sync is not in the list: $options"

# What the list of mounts shows; the mount is ours all the same.
mounted -o fsname=shown,subtype=other "$SCRATCH/directory"
grep -q "^shown $MOUNT fuse.other " /proc/mounts || fail "$(grep "$MOUNT" /proc/mounts)"
unmounted
mounted -o subtype=other "$SCRATCH/directory"
kill -TERM "$MOUNTER"
mount_ended

# The options of the command.
mounted -o cache=8m,threads=9,http=127.0.0.1:0,passthrough,kernel_write_back ram:4m
grep -q 'metrics http://127.0.0.1:' "$SCRATCH/mount.log" || fail 'http='
unmounted
head -c 1000000 /dev/urandom >"$SCRATCH/disk.img"
mounted -o writable,cache=8m "$SCRATCH/disk.img"
printf x | dd of="$MOUNT/disk.img" conv=notrunc status=none || fail 'writable'
unmounted
grep -q 'cache: 8.0 MiB' "$SCRATCH/mount.log" || fail 'cache='

# A disk image is one file, and how to come to what is in it is said.
is_root || exit 0
truncate -s 8M "$SCRATCH/ext4.img"
mkfs.ext4 -q -F -d "$SCRATCH/directory" "$SCRATCH/ext4.img"
mkdir "$SCRATCH/inside"
for options in '' image:; do
    : >"$SCRATCH/mount.log"
    mounted "$options$SCRATCH/ext4.img"
    command=$(sed -nE 's/^it shows one file; .*: (mount -o loop.*) DIRECTORY .*/\1/p' "$SCRATCH/mount.log")
    [ -n "$command" ] || fail "how to come inside is not said: $(cat "$SCRATCH/mount.log")"
    if $command "$SCRATCH/inside"; then
        [ -d "$SCRATCH/inside/lost+found" ] || fail 'the file system inside'
        umount "$SCRATCH/inside"
    else
        losetup --find >/dev/null 2>&1 && fail "it does not work: $command"
    fi
    unmounted
done

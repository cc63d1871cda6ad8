# Copies a tree into an export and back, `pagewell cp` and cp(1) on a mount of this kernel in turn, and
# prints for each run its name, then wall, user and system time in seconds.
#
# arguments: PORT ROUNDS; beside it: pagewell, tree.tar
set -euo pipefail
port=$1 rounds=$2
export_url="nfs://10.0.2.2:$port/dir?mountport=$port"
mkdir /tmp/tree /mnt/dir
tar -x -C /tmp/tree -f /job/tree.tar
files=$(find /tmp/tree -type f | wc -l)
chmod +x /job/pagewell

mount_export() { mount -t nfs -o "vers=3,tcp,nolock,port=$port,mountport=$port" 10.0.2.2:/dir /mnt/dir; }
TIMEFORMAT='%R %U %S'
timed() { # NAME COMMAND...
    local name=$1 time
    shift
    time=$({ time "$@" >/tmp/output 2>&1; } 2>&1) || { cat /tmp/output; exit 1; }
    echo "$name $time"
}
copied() { # DIRECTORY
    [ "$(find "$1" -type f | wc -l)" = "$files" ] || { echo "$1 is not whole"; exit 1; }
}
into_kernel() { cp -r /tmp/tree /mnt/dir/kernel && sync -f /mnt/dir; }
into_pagewell() { /job/pagewell cp -r /tmp/tree "$export_url::/pagewell"; }
back_kernel() { cp -r /mnt/dir/kernel /tmp/back; }
back_pagewell() { /job/pagewell cp -r --sync=never "$export_url::/kernel" /tmp/back; }
# Mounted again: nothing of the export is cached.
forget() {
    ! mountpoint -q /mnt/dir || umount /mnt/dir
    sync
    echo 3 >/proc/sys/vm/drop_caches
    mount_export
}

for ((round = 0; round < rounds; round++)); do
    programs='pagewell kernel'
    [ $((round % 2)) = 0 ] || programs='kernel pagewell'
    forget
    rm -rf /mnt/dir/pagewell /mnt/dir/kernel
    for program in $programs; do timed "into.$program" "into_$program"; done
    forget # the kernel does not know what others have made
    copied /mnt/dir/pagewell
    copied /mnt/dir/kernel
    for program in $programs; do
        forget
        timed "back.$program" "back_$program"
        copied /tmp/back
        rm -rf /tmp/back
    done
done
umount /mnt/dir

# Lists and copies a UDF volume, `pagewell` and ls(1) and cp(1) on a mount of this kernel in turn, and
# prints for each run its name, then wall, user and system time in seconds.
#
# arguments: ROUNDS; beside it: pagewell; the volume is /dev/vdb
set -euo pipefail
rounds=$1
chmod +x /job/pagewell
mkdir -p /mnt/udf
TIMEFORMAT='%R %U %S'
timed() { # NAME COMMAND...
    local name=$1 time
    shift
    time=$({ time "$@" >/tmp/output 2>&1; } 2>&1) || { tail -n 5 /tmp/output; exit 1; }
    echo "$name $time"
}
# Mounted again: nothing of the volume is cached.
forget() {
    ! mountpoint -q /mnt/udf || umount /mnt/udf
    echo 3 >/proc/sys/vm/drop_caches
    mount -t udf -o ro /dev/vdb /mnt/udf
}
ls_kernel() { ls -lR /mnt/udf; }
ls_pagewell() { /job/pagewell ls -lR iso:/dev/vdb; }
cp_kernel() { cp -r /mnt/udf /tmp/out; }
cp_pagewell() { /job/pagewell cp -r --sync=never iso:/dev/vdb /tmp/out; }

forget
files=$(find /mnt/udf -type f | wc -l)
for ((round = 0; round < rounds; round++)); do
    programs='pagewell kernel'
    [ $((round % 2)) = 0 ] || programs='kernel pagewell'
    for program in $programs; do
        forget
        timed "linux-ls.$program" "ls_$program"
        forget
        timed "linux-cp.$program" "cp_$program"
        [ "$(find /tmp/out -type f | wc -l)" = "$files" ] || { echo "$program copied too few"; exit 1; }
        rm -rf /tmp/out
    done
done
umount /mnt/udf

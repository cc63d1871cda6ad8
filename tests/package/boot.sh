#!/usr/bin/env bash
# usage: tests/package/boot.sh ROOT
#
# Boots the Debian below ROOT with its systemd as process 1 of namespaces of its own, on this kernel:
# processes, mounts, network (loopback alone), names, control groups. Prints the process id of that
# systemd once the boot is done, and returns; the system runs until `kill -s RTMIN+4` ends it in order.
# Commands run in it by `nsenter -a -r -w -t PROCESS`. Needs root and a kernel with cgroup2.
set -euo pipefail
root=$(cd "$1" && pwd)

# Its own tree of control groups, of which it sees nothing else.
group=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
made=
if [ -z "$group" ]; then
    group=$(mktemp -d) made=1
    mount -t cgroup2 cgroup2 "$group"
fi
mkdir -p "$group/pagewell-$$"
rm -f "$root.waiter"

start() { # in the new namespaces
    mount --make-rprivate /
    mount --bind "$root" "$root"
    cd "$root"
    mount -t proc proc proc
    mount -t sysfs -o ro sysfs sys
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    mount -t tmpfs -o mode=755 tmpfs run
    mount -t tmpfs -o mode=1777 tmpfs tmp
    mount -t tmpfs -o mode=755 tmpfs dev
    mkdir -p dev/pts dev/shm
    mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
    ln -s pts/ptmx dev/ptmx
    local device
    for device in null zero full random urandom tty fuse autofs; do
        [ -e "/dev/$device" ] || continue
        touch "dev/$device"
        mount --bind "/dev/$device" "dev/$device"
    done
    ip link set lo up
    hostname package-test
    mkdir -p .old
    pivot_root . .old
    umount -l /.old
    rmdir /.old
    # systemd leaves to the manager of a container what is its own business.
    exec env -i container=pagewell-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /usr/lib/systemd/systemd --unit=multi-user.target --log-target=journal </dev/null >/dev/null 2>&1
}
export -f start
export root
# The control groups are taken away with the system.
(
    setsid bash -c 'echo $$ >"$1/cgroup.procs"; echo $$ >"$root.waiter"
        exec unshare -C -p -m -n -u -i -f --propagation unchanged bash -ec start' \
        - "$group/pagewell-$$" || true
    find "$group/pagewell-$$" -depth -type d -exec rmdir {} +
    [ -z "$made" ] || umount "$group"
) </dev/null >"$root.boot" 2>&1 &
process=
for _ in $(seq 600); do
    waiter=$(cat "$root.waiter" 2>/dev/null || echo 0)
    process=$(pgrep -P "$waiter" | head -n 1 || true)
    # Asked before its bus listens, it only says that.
    state=$(nsenter -a -r -w -t "${process:-0}" systemctl is-system-running 2>/dev/null || true)
    case $state in
        running | degraded)
            echo "$process"
            exit
            ;;
    esac
    [ "$waiter" = 0 ] || kill -0 "$waiter" 2>/dev/null || { echo "boot: it has ended: $(cat "$root.boot")" >&2; exit 1; }
    sleep 0.2
done
echo "boot: not up after two minutes: ${state:-no answer}" >&2
exit 1

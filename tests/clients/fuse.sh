# Read by the scenarios that mount through FUSE, after lib.sh.

MOUNT=$SCRATCH/mnt
MOUNTER=
# The processes of mounts that have names.
declare -A mounters=()

# What a scenario leaves mounted is taken away, whatever happened.
finish_mount() {
    local status=$? place process
    while read -r _ place _; do
        case $place in "$SCRATCH"/*) "$PAGEWELL" umount --lazy "$place" || true ;; esac
    done < <(grep ' fuse.pagewell ' /proc/mounts)
    for process in $MOUNTER "${mounters[@]}"; do
        kill -KILL "$process" 2>/dev/null || true
    done
    rmdir "$MOUNT" 2>/dev/null || true
    if [ "$status" != 0 ] && [ -s "$SCRATCH/mount.log" ]; then
        echo '--- standard error of the mount:'
        tail -n 40 "$SCRATCH/mount.log"
    fi
    trap - ERR
    set +e
    (exit "$status")
    finish
}
trap finish_mount EXIT

# Says why this machine cannot mount, if it cannot.
need_fuse() {
    [ -e /dev/fuse ] || skip 'there is no /dev/fuse'
    mkdir -p "$MOUNT"
    is_root && return
    command -v fusermount3 >/dev/null || skip 'not root, and there is no fusermount3'
    [ -r /dev/fuse ] && [ -w /dev/fuse ] || skip 'this user may not use /dev/fuse'
}

# mounted ARGUMENT...: mounts in the foreground, on $MOUNT, and waits until it is ready.
mounted() {
    local waited=0
    mkdir -p "$MOUNT"
    # Another mount may have been ready.
    : >"$SCRATCH/mount.ready"
    "$PAGEWELL" mount --foreground "$@" "$MOUNT" >"$SCRATCH/mount.ready" 2>>"$SCRATCH/mount.log" &
    MOUNTER=$!
    until grep -q '^ready ' "$SCRATCH/mount.ready"; do
        kill -0 "$MOUNTER" 2>/dev/null || fail "the mount ended: $*"
        [ $((waited += 1)) -le 2400 ] || fail 'the mount was not ready after two minutes'
        sleep 0.05
    done
    [ "$(cat "$SCRATCH/mount.ready")" = "ready $MOUNT" ] || fail "ready line: $(cat "$SCRATCH/mount.ready")"
}

# The mount must end with this status (default 0).
mount_ended() { # [STATUS]
    local status=0
    wait "$MOUNTER" || status=$?
    MOUNTER=
    [ "$status" = "${1:-0}" ] || fail "the mount ended with status $status"
    ! grep -qF " $MOUNT " /proc/mounts || fail 'it is still mounted'
}

unmounted() {
    "$PAGEWELL" umount "$MOUNT"
    mount_ended
}

# mount_source NAME ARGUMENT...: one of several mounts, on $SCRATCH/NAME.
mount_source() {
    local name=$1
    shift
    MOUNT=$SCRATCH/$name
    mounted "$@"
    mounters[$name]=$MOUNTER
}

unmount_source() { # NAME
    MOUNT=$SCRATCH/$1 MOUNTER=${mounters[$1]}
    unset "mounters[$1]"
    unmounted
}

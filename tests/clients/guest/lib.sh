# Read by the part of a scenario that runs in the guest.
set -euo pipefail
shopt -s inherit_errexit
. /job/environment

# Says how far it is, with the seconds since it began.
step() { printf '%4d s  %s\n' "$SECONDS" "$*"; }

fail() {
    echo "FAILED in the guest: $*"
    exit 1
}
trap 'echo "FAILED in the guest at line $LINENO: $BASH_COMMAND"' ERR
set -E

# mount_export /EXPORT DIRECTORY [OPTION]: as docs/OPERATING.md tells users to.
mount_export() {
    mkdir -p "$2"
    local options=vers=3,tcp,nolock,port=$PORT,mountport=$MOUNT_PORT${3:+,$3}
    mount -t nfs -o "$options${MOUNT_OPTIONS:+,$MOUNT_OPTIONS}" "10.0.2.2:$1" "$2"
}

# take_time DIRECTORY: puts the clock two seconds ahead of the server's. The emulated clock drifts,
# and tools that compare it with the time of a file warn about times to come.
take_time() {
    touch "$1/.time"
    date -s "@$(($(stat -c %Y "$1/.time") + 3))" >/dev/null
    rm "$1/.time"
}

# What was cached by this kernel is read again.
forget() { sync; echo 3 >/proc/sys/vm/drop_caches; }

# as UID COMMAND...: as an ordinary user with a group of the same number.
as() {
    local user=$1
    shift
    setpriv --reuid "$user" --regid "$user" --clear-groups -- "$@"
}

refused() { # COMMAND...
    ! "$@" 2>/dev/null || fail "this was allowed: $*"
}

equal() { # EXPECTED FOUND WHAT
    [ "$1" = "$2" ] || fail "$3: expected '$1', found '$2'"
}

sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 -r sha256sum --); }

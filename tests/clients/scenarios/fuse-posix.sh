# The POSIX suite pjdfstest on mounts of memory and of a directory.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
is_root || skip 'the suite switches users, which needs root'
tools=$("$REPOSITORY/tests/tools.sh" pjdfstest)

# Paths of 4095 bytes: the suite fails by itself, on every file system, when the length of the
# path that it is given leaves a certain rest.
[ $((${#MOUNT} % 127)) != 9 ] || MOUNT=$SCRATCH/mounted

posix() { # SOURCE
    mounted --allow-other -o suid,dev "$@"
    chmod 777 "$MOUNT"
    timeout 300 "$tools/pjdfstest" -c "$CLIENTS/pjdfstest.toml" -s /dev/shm -p "$MOUNT" \
        >"$SCRATCH/pjdfstest.log" 2>&1 || { grep -A 3 FAILED "$SCRATCH/pjdfstest.log"; fail "$*"; }
    grep '^Summary' "$SCRATCH/pjdfstest.log"
    grep -q '^Summary: 0 failed' "$SCRATCH/pjdfstest.log" || fail "no summary without failures: $*"
    unmounted
}

# All users must be able to come here.
chmod 755 "$SCRATCH"
mkdir "$SCRATCH/directory"
posix ram:256m
posix "$SCRATCH/directory"
posix --no-passthrough "$SCRATCH/directory"

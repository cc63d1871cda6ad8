# The POSIX suite pjdfstest on mounts of memory, of a directory, and of an export of our own
# server.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
is_root || skip 'the suite switches users, which needs root'
tools=$("$REPOSITORY/tests/tools.sh" pjdfstest)

# A short path, since the suite makes sockets, whose paths have 108 bytes at most. Of 9 bytes it
# must not be: then the suite fails to make a path of 4095 bytes, on every file system.
rmdir "$MOUNT"
MOUNT=$(mktemp -d /tmp/pagewell.XXXXXX)

posix() { # SOURCE
    mounted --allow-other -o suid,dev "$@"
    chmod 777 "$MOUNT"
    timeout 300 "$tools/pjdfstest" -c "$configuration" -s /dev/shm -p "$MOUNT" \
        >"$SCRATCH/pjdfstest.log" 2>&1 || { grep -A 3 FAILED "$SCRATCH/pjdfstest.log"; fail "$*"; }
    grep '^Summary' "$SCRATCH/pjdfstest.log"
    grep -q '^Summary: 0 failed' "$SCRATCH/pjdfstest.log" || fail "no summary without failures: $*"
    unmounted
}

configuration=$CLIENTS/pjdfstest.toml
# All users must be able to come here.
chmod 755 "$SCRATCH"
mkdir "$SCRATCH/directory"
posix ram:256m
posix "$SCRATCH/directory"
posix --no-passthrough "$SCRATCH/directory"
mkdir "$SCRATCH/served"
serve --squash none "dir:$SCRATCH/served"
# A time of NFS version 3 has 32 bits of seconds (RFC 1813 section 2.5).
configuration=$SCRATCH/pjdfstest.toml
sed 's/^expected_failures = .*/expected_failures = ["utimensat::y2038"]/' \
    "$CLIENTS/pjdfstest.toml" >"$configuration"
posix "nfs://127.0.0.1:$PORT/"
stop_server

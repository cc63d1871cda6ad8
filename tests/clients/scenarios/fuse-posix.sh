# The POSIX suite pjdfstest on mounts of memory, of a directory, and of an export of our own
# server.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"
. "$(dirname "$0")/../programs.sh"

need_fuse
# All users must be able to come here.
chmod 755 "$SCRATCH"
mkdir "$SCRATCH/directory" "$SCRATCH/served"

use_posix ram:256m
use_posix "$SCRATCH/directory"
use_posix "$SCRATCH/directory" --no-passthrough
serve --squash none "dir:$SCRATCH/served"
# A time of NFS version 3 has 32 bits of seconds (RFC 1813 section 2.5).
use_posix --fails utimensat::y2038 "nfs://127.0.0.1:$PORT/"
stop_server

# Mounts of a foreign server, nfs-ganesha: programs, random operations, two mounts of one export, and
# the POSIX suite.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"
. "$(dirname "$0")/../programs.sh"

need_fuse
# Now, since the network of its own leads nowhere.
"$REPOSITORY/tests/tools.sh" pjdfstest fsx
. "$(dirname "$0")/../ganesha.sh"

mkdir "$SCRATCH/served"
start_ganesha "$SCRATCH/served" "$SCRATCH"
url="nfs://127.0.0.1:$ganesha_port/shared?mountport=$ganesha_mount_port"

mount_source mounted "$url"
use_git "$SCRATCH/mounted"
use_rust "$SCRATCH/mounted"
use_sqlite "$SCRATCH/mounted"
use_fsx "$SCRATCH/mounted" "${PAGEWELL_FSX_OPERATIONS:-20000}"
use_fio "$SCRATCH/mounted"
mount_source other "$url"
use_two "$SCRATCH/mounted" "$SCRATCH/other" "$SCRATCH/served"
use_two_writers "$SCRATCH/mounted" "$SCRATCH/other"
unmount_source mounted
unmount_source other
[ -z "$(ls -A "$SCRATCH/served")" ] || fail 'something stayed behind'

# nfs-ganesha says yes to new times of a symbolic link, and leaves them as they are. A time of NFS
# version 3 has 32 bits of seconds (RFC 1813 section 2.5).
use_posix --fails utimensat::y2038 --fails utimensat::follow_symlink "$url"

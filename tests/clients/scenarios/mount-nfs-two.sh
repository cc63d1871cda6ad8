# Two mounts of one export: close-to-open consistency (RFC 1813 section 4.11).
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"
. "$(dirname "$0")/../programs.sh"
need_fuse

mkdir "$SCRATCH/served"
serve --squash none "dir:$SCRATCH/served"
mount_source one "nfs://127.0.0.1:$PORT/"
mount_source two "nfs://127.0.0.1:$PORT/"
sees_own_writes "$SCRATCH/one" || fail 'a program does not see its own writes'
use_two "$SCRATCH/one" "$SCRATCH/two" "$SCRATCH/served"
use_two_writers "$SCRATCH/one" "$SCRATCH/two"
unmount_source one
unmount_source two
stop_server

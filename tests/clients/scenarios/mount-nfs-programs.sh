# git, cargo and SQLite on a mount of our own server.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"
. "$(dirname "$0")/../programs.sh"
need_fuse

mkdir "$SCRATCH/served"
serve --squash none "dir:$SCRATCH/served"
mount_source mounted "nfs://127.0.0.1:$PORT/"
use_git "$SCRATCH/mounted"
use_rust "$SCRATCH/mounted"
use_sqlite "$SCRATCH/mounted"
unmount_source mounted
stop_server
[ -z "$(ls -A "$SCRATCH/served")" ] || fail 'something stayed behind'

# A kernel client builds a C program and keeps it in a git repository, on the mount.
. "$(dirname "$0")/../lib.sh"

mkdir "$SCRATCH/served"
serve --squash none "/dir=$SCRATCH/served" /ram=ram:256m
guest build
"$SCRATCH/served/project/program" | grep -qx 'total 36' || fail 'the program does not run here'
git -C "$SCRATCH/served/project" -c safe.directory='*' fsck --strict ||
    fail 'the repository is broken'
stop_server

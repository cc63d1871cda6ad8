# A kernel client builds a C program and keeps it in a git repository, on the mount.
. "$(dirname "$0")/../lib.sh"

mkdir "$SCRATCH/served"
serve --squash none "/dir=$SCRATCH/served" /ram=ram:256m
guest build
# A copy: the server may still hold the file open for writing, and Linux runs no such file.
cp "$SCRATCH/served/project/program" "$SCRATCH/program"
"$SCRATCH/program" | grep -qx 'total 36' || fail 'the program does not run here'
git -C "$SCRATCH/served/project" -c safe.directory='*' fsck --strict ||
    fail 'the repository is broken'
stop_server

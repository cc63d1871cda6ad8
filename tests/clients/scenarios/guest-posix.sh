# What programs expect of a file system, seen through a kernel client: open files that are
# renamed and unlinked, rights of several users, links, special files, sizes, times, mappings.
. "$(dirname "$0")/../lib.sh"

mkdir "$SCRATCH/served"
chmod 777 "$SCRATCH/served"
cc -O1 -Wall -Werror -o "$SCRATCH/mapping" "$CLIENTS/guest/mapping.c"
serve --squash none "/dir=$SCRATCH/served" /ram=ram:32m
# Without root the server acts as one user, and cannot make devices or give files away.
exports='ram'
! is_root || exports='dir ram'
echo "exports='$exports'" >"$SCRATCH/exports"
guest posix "$SCRATCH/mapping" "$SCRATCH/exports"
stop_server

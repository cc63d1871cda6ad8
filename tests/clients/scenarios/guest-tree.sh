# A kernel client copies a tree of sources in and out, and reads it from an image.
. "$(dirname "$0")/../lib.sh"

# Some of the repository itself, and some of everything.
mkdir "$SCRATCH/served" "$SCRATCH/tree"
(cd "$REPOSITORY" && tar -c Cargo.toml Makefile crates/fs crates/sunrpc docs) |
    tar -x -C "$SCRATCH/tree"
make_tree "$SCRATCH/tree/mixed" 50
ln "$SCRATCH/tree/mixed/hello.txt" "$SCRATCH/tree/mixed/second-name"
make_iso "$SCRATCH/tree.iso" "$SCRATCH/tree"
tar -c -C "$SCRATCH/tree" . >"$SCRATCH/tree.tar"
sums "$SCRATCH/tree" >"$SCRATCH/sums"

serve --squash none "/dir=$SCRATCH/served" /ram=ram:256m "/iso=$SCRATCH/tree.iso"
guest tree "$SCRATCH/tree.tar" "$SCRATCH/sums"

# The host sees what the guest wrote into the directory.
sums "$SCRATCH/served/tree" | diff "$SCRATCH/sums" - || fail 'the tree differs on the host'
[ "$(readlink "$SCRATCH/served/tree/mixed/sub/link")" = ../hello.txt ] || fail 'symbolic link'
[ "$(stat -c %h "$SCRATCH/served/tree/mixed/hello.txt")" = 2 ] || fail 'hard link'
stop_server

# The root of a server with several exports, mounted through FUSE: its listing tells no types.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"
need_fuse

mkdir -p "$SCRATCH/served/folder"
echo old >"$SCRATCH/served/folder/file"
serve --squash none "/first=$SCRATCH/served" /below/second=ram:8m
mount_source all "nfs://127.0.0.1:$PORT/"
cd "$SCRATCH/all"
mkdir below/second/folder
echo new >below/second/folder/file
found=$(find . -type f | sort | tr '\n' ' ')
[ "$found" = './below/second/folder/file ./first/folder/file ' ] || fail "find finds '$found'"
[ "$(cat first/folder/file below/second/folder/file)" = $'old\nnew' ] || fail 'other content'
! mkdir new 2>"$SCRATCH/refused" || fail 'a directory was made above the exports'
grep -q 'Read-only file system' "$SCRATCH/refused" || fail "$(cat "$SCRATCH/refused")"
mv first/folder/file below/second/moved
[ "$(cat below/second/moved)" = old ] || fail 'moved to another export'
cd /
unmount_source all
stop_server

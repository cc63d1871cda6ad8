# A disk image: written by pagewell cp, read with libnfs. (nfs-cp
# writes to no file that is there, and to an image nothing can be added.)
. "$(dirname "$0")/../lib.sh"

head -c 104857600 /dev/urandom >"$SCRATCH/first"
head -c 5000001 /dev/urandom >"$SCRATCH/short"
truncate -s 104857600 "$SCRATCH/disk.img"
{ cat "$SCRATCH/short"; tail -c +5000002 "$SCRATCH/first"; } >"$SCRATCH/expected"

image="image:$SCRATCH/disk.img"
"$PAGEWELL" cp "$SCRATCH/first" "$image"
"$PAGEWELL" cp --cache 8m "$SCRATCH/short" "$image" 2>"$SCRATCH/note"
grep -q '99857599 bytes behind them' "$SCRATCH/note" || fail "$(cat "$SCRATCH/note")"
cat "$SCRATCH/first" "$SCRATCH/short" >"$SCRATCH/long"
! "$PAGEWELL" cp "$SCRATCH/long" "$image" 2>"$SCRATCH/note" || fail 'a longer file fitted'
same_file "$SCRATCH/expected" "$SCRATCH/disk.img"

serve --cache 16m --squash none "/disk=$image"
copy_out /disk/disk.img "$SCRATCH/out"
same_file "$SCRATCH/expected" "$SCRATCH/out"
! nfs-cp "$SCRATCH/short" "$(url /disk/disk.img)" >"$SCRATCH/nfs-cp.log" 2>&1 ||
    fail 'this nfs-cp writes to files that are there: let it'
! nfs-cp "$SCRATCH/short" "$(url /disk/new)" >"$SCRATCH/nfs-cp.log" 2>&1 ||
    fail 'something was added to an image'
! "$PAGEWELL" cp "$SCRATCH/first" "$image" 2>"$SCRATCH/note" ||
    fail 'two programs write to one image'
grep -q 'in use' "$SCRATCH/note" || fail "$(cat "$SCRATCH/note")"
stop_server
same_file "$SCRATCH/expected" "$SCRATCH/disk.img"

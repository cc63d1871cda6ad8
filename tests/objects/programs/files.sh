# What programs do with single files of a mounted bucket: append, cut off, leave holes, save as
# editors do, and names of many kinds.
. "$(dirname "$0")/../lib.sh"

need_fuse
start_store
mount_bucket "$(bucket)"

head -c 20000000 /dev/urandom >"$SCRATCH/random"
dd if="$SCRATCH/random" of="$MOUNT/written" bs=64k conv=fsync status=none
# What fsync has returned for is an object.
cmp "$SCRATCH/random" "$BUCKET/written"

# Appends, each of a program of its own, to a small file and to a large one.
cp "$SCRATCH/random" "$SCRATCH/expected"
for number in {1..20}; do
    echo "line $number" >>"$MOUNT/log"
    [ $((number % 5)) != 0 ] || tee -a "$MOUNT/written" <<<"more $number" >>"$SCRATCH/expected"
done
[ "$(cat "$BUCKET/log")" = "$(printf 'line %d\n' {1..20})" ] || fail 'lines of the log are missing'
cmp "$SCRATCH/expected" "$BUCKET/written"

# The end moves; what was behind it is zeros.
for bytes in 19000000 100 0 5000000 4999999; do
    truncate -s "$bytes" "$MOUNT/written" "$SCRATCH/expected"
    cmp "$SCRATCH/expected" "$MOUNT/written"
    cmp "$SCRATCH/expected" "$BUCKET/written"
done

# Holes.
for file in "$MOUNT/holes" "$SCRATCH/holes"; do
    printf begin >"$file"
    dd if="$SCRATCH/random" of="$file" bs=1000 count=3 seek=17001 conv=notrunc status=none
    printf middle | dd of="$file" bs=1 seek=6000001 conv=notrunc status=none
    truncate -s 40000000 "$file"
done
cmp "$SCRATCH/holes" "$MOUNT/holes"
cmp "$SCRATCH/holes" "$BUCKET/holes"

# A file is replaced as editors do it, and as careful programs do; a reader sees one or the other.
for number in {1..10}; do
    python3 - "$MOUNT/document" "text $number" <<'PROGRAM'
import os, sys
path, text = sys.argv[1:]
with open(path + ".new", "w") as file:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())
os.rename(path + ".new", path)
folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
os.fsync(folder)
PROGRAM
    [ "$(cat "$MOUNT/document" "$BUCKET/document")" = "text ${number}text $number" ] || fail 'the document is old'
    [ ! -e "$BUCKET/document.new" ] || fail 'the new name stayed'
done
sed -i.backup 's/text/words/' "$MOUNT/document"
says "$BUCKET/document" 'words 10'
says "$BUCKET/document.backup" 'text 10'

# A file that is removed while it is open is read, where memory has it, and written on.
head -c 1000000 "$SCRATCH/random" >"$SCRATCH/removed"
cp "$SCRATCH/removed" "$MOUNT/open"
exec 3<>"$MOUNT/open"
cmp "$SCRATCH/removed" "$MOUNT/open"
rm "$MOUNT/open"
[ ! -e "$BUCKET/open" ] || fail 'the object of a removed file stayed'
cmp "$SCRATCH/removed" - <&3
echo more >&3
exec 3>&-
[ ! -e "$MOUNT/open" ] && [ ! -e "$BUCKET/open" ] || fail 'a removed file came back'

# Names. Those that keys cannot have in every store are refused.
names=('with space' 'trailing ' '-dash' '.hidden' '#hash' "quote'\"double" 'back\slash' 'a~b' 'a%41b'
    'a+b' '?q&a=b' ':c;d,e' '%' '100%' 'naïve-日本語' '~' '<x>' "$(printf 'n%.0s' {1..200})")
mkdir "$MOUNT/names"
for name in "${names[@]}"; do
    echo "$name" >"$MOUNT/names/$name"
    mv "$MOUNT/names/$name" "$MOUNT/names/other"
    mv "$MOUNT/names/other" "$MOUNT/names/$name"
done
unmounted
mount_bucket "$(bucket)"
[ "$(ls -A "$MOUNT/names" | wc -l)" = ${#names[@]} ] || { ls -A "$MOUNT/names"; fail 'names are missing'; }
for name in "${names[@]}"; do says "$MOUNT/names/$name" "$name"; done
for name in $'tab\there' $'new\nline' $'latin\xe9' "$(printf 'n%.0s' {1..256})"; do
    ! touch "$MOUNT/names/$name" 2>/dev/null || fail "the name was taken: $name"
done

# Directories stay when their last name goes, and go when they are removed.
mkdir -p "$MOUNT/one/two/three"
rmdir "$MOUNT/one/two/three"
[ -d "$MOUNT/one/two" ] || fail 'a directory went with its last name'
! rmdir "$MOUNT/one" 2>/dev/null || fail 'a directory with a name was removed'
rm -r "$MOUNT/one" "$MOUNT/names"
[ -z "$(ls -d "$MOUNT/one" "$MOUNT/names" 2>/dev/null)" ] || fail 'directories stayed'

# What a bucket does not hold is refused, each with its reason.
for refused in "ln $MOUNT/log $MOUNT/linked" "ln -s log $MOUNT/symbolic" "mkfifo $MOUNT/fifo"; do
    ! $refused 2>"$SCRATCH/refused" || fail "this was done: $refused"
    cat "$SCRATCH/refused"
done

# Modes are shown where they were set, without which rsync -a copies nothing.
mkdir "$SCRATCH/modes" && echo private >"$SCRATCH/modes/file" && chmod 640 "$SCRATCH/modes/file"
rsync -a "$SCRATCH/modes" "$MOUNT/"
[ "$(stat -c %a "$MOUNT/modes/file")" = 640 ] || fail 'a mode that was set is not shown'
[ -z "$(rsync -aiO "$SCRATCH/modes" "$MOUNT/")" ] || fail 'rsync -a has something to do again'
unmounted
nothing_staged

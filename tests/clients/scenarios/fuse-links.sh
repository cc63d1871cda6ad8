# Hard links of an ISO image are hard links in its mount, and a copy of that has them, too.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"

need_fuse
command -v xorriso >/dev/null || skip 'needs xorriso'
mkdir -p "$SCRATCH/tree/directory"
cd "$SCRATCH/tree"
echo data >file
ln file directory/again
: >empty
ln empty directory/nothing
ln -s target link
ln link directory/pointer
echo data >other
cd - >/dev/null
xorriso -hardlinks on -outdev "$SCRATCH/image.iso" -map "$SCRATCH/tree" / -commit \
    >"$SCRATCH/log" 2>&1 || fail "$(cat "$SCRATCH/log")"

groups() { # DIRECTORY: the names of each file and link on a line
    (cd "$1" && find . ! -type d -printf '%i %n %P\n') | sort -k 1n -k 3 |
        awk '{ if ($1 != last) printf "%s%s:", (NR > 1 ? "\n" : ""), $2; last = $1; printf " %s", $3 }
            END { print "" }' | sort
}
for options in '' --numbers-32bit '-o attr_timeout=0,entry_timeout=0'; do
    # shellcheck disable=SC2086 # words
    mounted $options "$SCRATCH/image.iso"
    groups "$SCRATCH/tree" >"$SCRATCH/expected"
    for _ in 1 2; do
        groups "$MOUNT" >"$SCRATCH/shown"
        diff "$SCRATCH/expected" "$SCRATCH/shown" || fail "other links"
    done
    # By listing alone, and by looking up.
    wide=$(cd "$MOUNT" && ls -aiR | awk 'NF == 2 && $1 >= 2^32')
    [ -z "$wide" ] || fail "more than 32 bits: $wide"
    [ "$(stat -c %i "$MOUNT/file")" = "$(stat -c %i "$MOUNT/directory/again")" ] || fail 'two numbers'
    rm -rf "$SCRATCH/copy"
    cp -a "$MOUNT" "$SCRATCH/copy"
    groups "$SCRATCH/copy" >"$SCRATCH/shown"
    diff "$SCRATCH/expected" "$SCRATCH/shown" || fail 'other links in the copy'
    cat "$MOUNT/file" "$MOUNT/directory/again" | cmp - <(printf 'data\ndata\n')
    unmounted
done

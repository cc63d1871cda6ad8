# Lists and reads a directory and an ISO image with libnfs.
. "$(dirname "$0")/../lib.sh"

make_tree "$SCRATCH/tree"
head -c 314572800 /dev/urandom >"$SCRATCH/tree/big"
make_iso "$SCRATCH/tree.iso" "$SCRATCH/tree"
serve --squash none "/dir=$SCRATCH/tree" "/iso=$SCRATCH/tree.iso"

listing() { nfs-ls "$@" >"$SCRATCH/listing" || fail "nfs-ls $*"; }

for export in /dir /iso; do
    listing "$(url $export)"
    [ "$(wc -l <"$SCRATCH/listing")" = 6 ] || { cat "$SCRATCH/listing"; fail "root of $export"; }
    grep -Eq '^-r.* 314572800 big$' "$SCRATCH/listing" || fail "size of big in $export"
    grep -Eq '^d.* sub$' "$SCRATCH/listing" || fail "sub is no directory in $export"

    listing "$(url $export/many)"
    [ "$(wc -l <"$SCRATCH/listing")" = 300 ] || fail "many in $export"
    [ "$(awk '{ print $NF }' "$SCRATCH/listing" | sort -u | wc -l)" = 300 ] ||
        fail "a name of $export/many comes twice"

    listing -R "$(url $export)"
    for name in 'with space' 'naïve-日本語' '#hash' '-dash' '.hidden' 'link'; do
        grep -qF -- "$name" "$SCRATCH/listing" || fail "'$name' is not listed in $export"
    done

    for file in hello.txt empty sub/odd-size sub/deep/deeper/blocks sub/naïve-日本語 \
        sub/-dash 'sub/with space' many/file-300; do
        nfs-cat "$(url "$export/$file")" >"$SCRATCH/out" || fail "nfs-cat $export/$file"
        same_file "$SCRATCH/tree/$file" "$SCRATCH/out"
    done
    copy_out "$export/big" "$SCRATCH/out"
    same_file "$SCRATCH/tree/big" "$SCRATCH/out"
    nfs-cat "$(url "$export/absent")" >"$SCRATCH/out" 2>&1 && fail "$export/absent was read"
done

nfs-ls "$(url /other)" >"$SCRATCH/out" 2>&1 && fail 'an export that does not exist was mounted'
stop_server

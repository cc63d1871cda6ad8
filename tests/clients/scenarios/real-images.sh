# Images that others made (boot images of Debian packages) are read as xorriso reads them.
. "$(dirname "$0")/../lib.sh"

images=(/usr/lib/grub-rescue/grub-rescue-cdrom.iso /usr/lib/ipxe/ipxe.iso
    /usr/lib/memtest86+/memtest86+x64.iso /usr/lib/memtest86+/memtest86+ia32.iso)
present=()
exports=()
for image in "${images[@]}"; do
    [ -e "$image" ] || continue
    exports+=("/image${#present[@]}=$image")
    present+=("$image")
done
[ ${#present[@]} -gt 0 ] || skip 'none of the packages grub-rescue-pc, ipxe, memtest86+ is here'

serve "${exports[@]}"
# Extracted by xorriso here, and by the program under test.
for number in "${!present[@]}"; do
    image=${present[$number]}
    expected=$SCRATCH/expected$number
    mkdir "$expected"
    xorriso -osirrox on -indev "$image" -extract / "$expected" >"$SCRATCH/log" 2>&1 ||
        { cat "$SCRATCH/log"; fail "xorriso could not read $image"; }
    chmod -R u+rwX "$expected"
    sums "$expected" >"$SCRATCH/sums$number"
    [ -s "$SCRATCH/sums$number" ] || fail "nothing in $image"

    "$PAGEWELL" cp -r "iso:$image" "$SCRATCH/copied$number"
    sums "$SCRATCH/copied$number" | diff "$SCRATCH/sums$number" - || fail "pagewell cp -r $image"
    # And through the server, file by file, with libnfs.
    while read -r sum name; do
        found=$(nfs-cat "$(url "/image$number/${name#./}")" | sha256sum)
        [ "$found" = "$sum  -" ] || fail "$name of $image"
    done <"$SCRATCH/sums$number"
    # And through a kernel.
    cp "$SCRATCH/sums$number" "$SCRATCH/kernel-sums$number"
    echo "$image: $(wc -l <"$SCRATCH/sums$number") files are equal"
done
guest images "$SCRATCH"/kernel-sums*
stop_server

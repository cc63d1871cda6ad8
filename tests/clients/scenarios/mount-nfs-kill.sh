# A server that is killed 50 times while a mount writes to it: what fsync(2) acknowledged is there.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"
need_fuse

rounds=50
mkdir "$SCRATCH/served"
truncate -s 32m "$SCRATCH/disk"
serve --squash none "/files=dir:$SCRATCH/served" "/image=image:$SCRATCH/disk"
mount_source files "nfs://127.0.0.1:$PORT/files?hard&timeo=50"
mount_source image "nfs://127.0.0.1:$PORT/image?hard&timeo=50"

# Each notes what it wrote only when it was told that it is durable.
write_files() {
    local number=0 file
    until [ -e "$SCRATCH/stop" ]; do
        number=$((number + 1))
        file=file-$number
        head -c $((RANDOM * 20 + 1)) /dev/urandom >"$SCRATCH/source"
        dd if="$SCRATCH/source" of="$SCRATCH/files/$file" bs=64k conv=fsync status=none
        printf '%s  %s\n' "$(sha256sum <"$SCRATCH/source" | cut -d' ' -f1)" "$file" \
            >>"$SCRATCH/acknowledged"
    done
}
write_image() {
    local block
    until [ -e "$SCRATCH/stop" ]; do
        block=$((RANDOM % 512))
        head -c 65536 /dev/urandom >"$SCRATCH/block"
        dd if="$SCRATCH/block" of="$SCRATCH/image/disk" bs=64k seek=$block conv=notrunc,fsync \
            status=none
        cp "$SCRATCH/block" "$SCRATCH/blocks/$block"
    done
}
mkdir "$SCRATCH/blocks"
: >"$SCRATCH/acknowledged"
write_files &
writers=($!)
write_image &
writers+=($!)

# At least so often, and until there is enough to be looked at, however slow the machine is.
is_enough() {
    [ "$(wc -l <"$SCRATCH/acknowledged")" -ge 10 ] && [ "$(ls "$SCRATCH/blocks" | wc -l)" -ge 10 ]
}
round=0
until [ "$round" -ge $rounds ] && is_enough; do
    round=$((round + 1))
    sleep "0.$((RANDOM % 4 + 1))"
    kill_server
    serve_again
    for writer in "${writers[@]}"; do
        kill -0 "$writer" 2>/dev/null || fail "a writer ended in round $round"
    done
done
touch "$SCRATCH/stop"
for writer in "${writers[@]}"; do
    wait "$writer" || fail 'a writer was told of an error'
done
unmount_source files
unmount_source image
stop_server

(cd "$SCRATCH/served" && sha256sum --quiet --check "$SCRATCH/acknowledged")
checked=0
for block in "$SCRATCH"/blocks/*; do
    cmp "$block" <(dd if="$SCRATCH/disk" bs=64k skip="${block##*/}" count=1 status=none) ||
        fail "block ${block##*/} of the image was acknowledged and is not there"
    checked=$((checked + 1))
done
files=$(wc -l <"$SCRATCH/acknowledged")
echo "$round rounds: $files files and $checked blocks were acknowledged and are there"

# A file of 1 GiB, written and read back with little memory, and staging folders that are small.
. "$(dirname "$0")/../lib.sh"

need_fuse
start_store
head -c "${PAGEWELL_LARGE_BYTES:-1073741824}" /dev/urandom >"$SCRATCH/large"

# What is in memory, in KiB, without the text of the program.
resident_kib() {
    awk '/^RssAnon|^RssShmem/ { sum += $2 } END { print sum }' "/proc/$MOUNTER/status"
}

watch_memory() {
    local now most=0
    while now=$(resident_kib 2>/dev/null) && [ -n "$now" ]; do
        [ "$now" -le "$most" ] || { most=$now; echo "$most" >"$SCRATCH/most"; }
        sleep 0.1
    done
}

CACHE=64m mount_bucket "$(bucket)"
watch_memory &
watcher=$!
dd if="$SCRATCH/large" of="$MOUNT/large" bs=1M conv=fsync status=none
cmp "$SCRATCH/large" "$MOUNT/large"
cmp "$SCRATCH/large" "$BUCKET/large"
rm "$MOUNT/large"
unmounted
wait "$watcher" || true
nothing_staged
echo "at most $(($(cat "$SCRATCH/most") / 1024)) MiB resident, with a cache of 64 MiB"
[ "$(cat "$SCRATCH/most")" -le $((128 * 1024)) ] || fail 'more is resident than the cache and 64 MiB'

# What the staging folder has no room for becomes part of the object before the file is closed.
mount_bucket --staging-dir-size 24m "$(bucket)"
dd if="$SCRATCH/large" of="$MOUNT/larger" bs=1M count=200 conv=fsync status=none
cmp -n 209715200 "$SCRATCH/large" "$BUCKET/larger"
cmp -n 209715200 "$SCRATCH/large" "$MOUNT/larger"
unmounted
nothing_staged

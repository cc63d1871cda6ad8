# Memory of mounts: resident never more than the cache and 64 MiB, however many read, write and
# list.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../fuse.sh"
need_fuse

CACHE_MEBIBYTES=64
FILES=24
# All together many times the cache. They have no bytes on the disk.
FILE_MEBIBYTES=64
# Listings at a time, each of a directory of its own: half a million objects.
LISTINGS=16
NAMES=32700

# holds WHAT: the most that was resident at any time.
holds() {
    local most
    most=$(awk '/^VmHWM:/ { print int($2 / 1024) }' "/proc/$MOUNTER/status")
    echo "$1: $most MiB resident at most, the cache has $CACHE_MEBIBYTES"
    [ "$most" -ge 8 ] || fail "$1: nothing was measured"
    [ "$most" -le $((CACHE_MEBIBYTES + 64)) ] || fail "$1: $most MiB"
}

# Whether the kernel can be asked to forget objects (Linux 6.18); before, the table of a mount grows
# with the kernel's own.
can_forget() { [ "$(printf '%s\n' 6.18 "$(uname -r)" | sort -V | head -n 1)" = 6.18 ]; }

# each_number COMMAND [COUNT]: runs it for so many numbers at the same time, $FILES when not said.
each_number() {
    local number process processes=()
    for number in $(seq "${2:-$FILES}"); do
        "$1" "$number" &
        processes+=($!)
    done
    for process in "${processes[@]}"; do wait "$process" || fail "$1 failed"; done
}

read_file() { [ "$(cat "$MOUNT/file-$1" | wc -c)" = $((FILE_MEBIBYTES << 20)) ]; }
read_part() {
    dd if="$MOUNT/image" bs=1M skip=$((($1 - 1) * FILE_MEBIBYTES)) count="$FILE_MEBIBYTES" \
        of=/dev/null status=none
}
# With what it tells of each name, and as one that wants names only begins.
list_long() { [ "$(ls -l "$MOUNT/directory-$1" | grep -c '^-')" = "$NAMES" ]; }
list_names() { [ "$(ls -f "$MOUNT/directory-$1" | wc -l)" = $((NAMES + 2)) ]; }
write_file() { dd if=/dev/zero of="$MOUNT/new-$1" bs=1M count=24 status=none; }

# A small image takes little, however large the cache might become.
make_tree "$SCRATCH/tree" 300
make_iso "$SCRATCH/small.iso" "$SCRATCH/tree"
mounted "$SCRATCH/small.iso"
find "$MOUNT" -type f -exec cat {} + >"$SCRATCH/read"
small=$(awk '/^VmHWM:/ { print int($2 / 1024) }' "/proc/$MOUNTER/status")
echo "a small image: $small MiB resident at most"
[ "$small" -le 40 ] || fail "a small image: $small MiB"
unmounted

mkdir "$SCRATCH/served"
for number in $(seq "$FILES"); do truncate -s "${FILE_MEBIBYTES}M" "$SCRATCH/served/file-$number"; done
truncate -s "$((FILES * FILE_MEBIBYTES))M" "$SCRATCH/image"
serve --squash none "dir:$SCRATCH/served"

for source in "nfs://127.0.0.1:$PORT/" "nfs://127.0.0.1:$PORT/?delay=20"; do
    mounted --cache "${CACHE_MEBIBYTES}m" "$source"
    read_file 1
    holds "$source, one reader"
    each_number read_file
    holds "$source, $FILES readers"
    unmounted
done
mounted --cache "${CACHE_MEBIBYTES}m" "nfs://127.0.0.1:$PORT/"
each_number write_file
holds "$FILES writers"
unmounted
stop_server

mounted --cache "${CACHE_MEBIBYTES}m" "image:$SCRATCH/image"
each_number read_part
holds 'an image'
unmounted

if ! can_forget; then
    echo 'the kernel cannot be asked to forget: listings are not held to their memory'
    exit 0
fi
mkdir "$SCRATCH/listed"
perl -e 'for my $directory (1 .. $ARGV[1]) {
    mkdir "$ARGV[0]/directory-$directory" or die;
    for (1 .. $ARGV[2]) { open my $file, ">", "$ARGV[0]/directory-$directory/a-file-name-$_" or die }
}' "$SCRATCH/listed" "$LISTINGS" "$NAMES"
serve --squash none "dir:$SCRATCH/listed"
for source in "nfs://127.0.0.1:$PORT/" "dir:$SCRATCH/listed"; do
    for way in list_names list_long; do
        mounted --cache "${CACHE_MEBIBYTES}m" "$source"
        each_number "$way" "$LISTINGS"
        holds "$source, $way, $LISTINGS at a time"
        unmounted
    done
done
stop_server

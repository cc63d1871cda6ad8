# fsx (random operations on one file, checked against a model) and fio, which verifies what it
# wrote, on a mounted bucket. They fsync and close often, so that most states become objects.
. "$(dirname "$0")/../lib.sh"

need_fuse
start_store
OPERATIONS=${PAGEWELL_FSX_OPERATIONS:-100000}
mount_bucket "$(bucket)"

# A file that is sent whole, and one of several parts, which are copied where they have not changed.
sed 's/^close_open = .*/close_open = 0.3/; s/sync = 0.01/sync = 0.2/' \
    "$CLIENTS/fsx.toml" >"$SCRATCH/whole.toml"
sed 's/^flen = .*/flen = 33554432/; s/^max = .*/max = 1048576/; s/sync = 0.2/sync = 0.05/' \
    "$SCRATCH/whole.toml" >"$SCRATCH/parts.toml"
for line in 'close_open = 0.3' 'sync = 0.2' 'flen = 33554432' 'max = 1048576' 'sync = 0.05'; do
    grep -q "$line" "$SCRATCH/whole.toml" "$SCRATCH/parts.toml" || fail "no $line: fsx.toml is another"
done
FSX_CONFIGURATION=$SCRATCH/whole.toml use_fsx "$MOUNT" "$OPERATIONS"
FSX_CONFIGURATION=$SCRATCH/parts.toml use_fsx "$MOUNT" $((OPERATIONS / 50))

use_fio "$MOUNT"
use_fio "$MOUNT" --size=64m --numjobs=1 --fsync=16
unmounted
nothing_staged
left=$("$PAGEWELL" ls -R "$(bucket)" | grep -E 'fsx|verify' || true)
[ -z "$left" ] || fail "objects stayed: $left"

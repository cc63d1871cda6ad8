# The POSIX suite pjdfstest on a bucket whose objects keep modes, owners and times: all but what
# posix.txt names.
. "$(dirname "$0")/../lib.sh"

need_fuse
start_store
unmet=()
while read -r test; do
    unmet+=(--fails "$test")
done < <(grep -v -e '^#' -e '^$' "$OBJECTS/posix.txt")
use_posix "${unmet[@]}" --staging-dir "$SCRATCH/staging" "${WRITES[@]}" "$(bucket '' metadata=objects)"
nothing_staged

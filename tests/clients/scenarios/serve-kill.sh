# What was answered as stable is there after SIGKILL, and was synchronised before the answer.
. "$(dirname "$0")/../lib.sh"

mkdir "$SCRATCH/served" "$SCRATCH/from"
for number in {1..8}; do
    head -c $((number * 700001)) /dev/urandom >"$SCRATCH/from/file-$number"
done
serve --squash none "/dir=$SCRATCH/served"

# libnfs sends COMMIT when a file is closed, so all that nfs-cp has finished is stable.
: >"$SCRATCH/finished"
(
    trap - EXIT ERR
    for number in {1..8}; do
        nfs-cp "$SCRATCH/from/file-$number" "$(url "/dir/file-$number")" || exit 0
        echo "$number" >>"$SCRATCH/finished"
    done
) >"$SCRATCH/nfs-cp.log" 2>&1 &
writer=$!
until grep -qx 4 "$SCRATCH/finished"; do
    kill -0 "$writer" 2>/dev/null || { cat "$SCRATCH/nfs-cp.log"; fail 'the writer ended early'; }
    sleep 0.01
done
kill_server
# Without a server libnfs waits for ever.
kill "$writer" 2>/dev/null || true
pkill_children() { pgrep -P "$1" | xargs -r kill 2>/dev/null || true; }
pkill_children "$writer"
wait "$writer" 2>/dev/null || true

serve_again
while read -r number; do
    same_file "$SCRATCH/from/file-$number" "$SCRATCH/served/file-$number"
    copy_out "/dir/file-$number" "$SCRATCH/out"
    same_file "$SCRATCH/from/file-$number" "$SCRATCH/out"
done <"$SCRATCH/finished"
echo "$(wc -l <"$SCRATCH/finished") files were finished and are whole"

# Nothing is in the way of writing again.
copy_in "$SCRATCH/from/file-8" /dir/after
same_file "$SCRATCH/from/file-8" "$SCRATCH/served/after"

# The system call behind the promise, where this machine lets us look.
if strace -o /dev/null true 2>/dev/null && strace -qq -f -p "$SERVER" -o "$SCRATCH/calls" \
    -e trace=fsync,fdatasync,sync_file_range,syncfs & then
    tracer=$!
    # Until it traces every thread.
    while grep -qE '^TracerPid:\s0$' /proc/"$SERVER"/task/*/status; do
        kill -0 "$tracer" 2>/dev/null || fail 'strace ended'
        sleep 0.05
    done
    copy_in "$SCRATCH/from/file-1" /dir/traced
    kill "$tracer"
    wait "$tracer" 2>/dev/null || true
    grep -Eq '(fsync|fdatasync|syncfs)\(' "$SCRATCH/calls" ||
        fail 'COMMIT was answered without synchronising'
fi
stop_server

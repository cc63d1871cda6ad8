# Uses a foreign server, nfs-ganesha, through nfs:// sources: trees there and back, changes on both
# sides, and the server killed and started again under a copy.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../ganesha.sh"

exported=$SCRATCH/exported
mkdir "$exported" "$SCRATCH/from"
chmod 777 "$exported"
start_ganesha "$exported" "$SCRATCH"

# Its MOUNT has a port of its own, which the port mapper knows. A port that is named is that of both.
direct="nfs://127.0.0.1:$ganesha_port/shared?mountport=$ganesha_mount_port"
make_tree "$SCRATCH/from"
head -c 20000000 /dev/urandom >"$SCRATCH/from/big"

"$PAGEWELL" ls nfs://127.0.0.1/shared >"$SCRATCH/empty"
[ ! -s "$SCRATCH/empty" ] || fail 'an empty export lists names'
"$PAGEWELL" ls "nfs://127.0.0.1:$ganesha_port/shared" >"$SCRATCH/out" 2>&1 &&
    fail 'the port mapper was asked although a port was named'
grep -q "port $ganesha_port does not speak it" "$SCRATCH/out" || fail "$(cat "$SCRATCH/out")"
"$PAGEWELL" cp -rp "$SCRATCH/from" "$direct::/copy"
diff -r --no-dereference "$SCRATCH/from" "$exported/copy"
"$PAGEWELL" cp -rp "$direct&rsize=32k&readahead=4::/copy" "$SCRATCH/back"
diff -r --no-dereference "$SCRATCH/from" "$SCRATCH/back"
[ "$("$PAGEWELL" sum "$direct::/copy/big" | cut -c -64)" = \
    "$(sha256sum "$SCRATCH/from/big" | cut -c -64)" ] || fail 'another sum'
names() { "$PAGEWELL" ls -R "$1" | grep -v ':$' | sort; } # without the headings
[ "$(names "$direct::/copy")" = "$(names "$exported/copy")" ] || fail 'another listing'

# What a local program changes is seen; a shorter copy replaces a longer one.
printf 'changed\n' >"$exported/copy/big"
[ "$("$PAGEWELL" cat "$direct::/copy/big")" = changed ] || fail 'the change is not seen'
"$PAGEWELL" cp "$SCRATCH/from/hello.txt" "$direct::/copy/big"
same_file "$SCRATCH/from/hello.txt" "$exported/copy/big"

"$PAGEWELL" ls "nfs://127.0.0.1:$ganesha_port/nowhere?mountport=$ganesha_mount_port" >"$SCRATCH/out" 2>&1 &&
    fail 'an export that is not there was mounted'
[ "$(wc -l <"$SCRATCH/out")" = 1 ] || fail "not one line: $(cat "$SCRATCH/out")"

# Killed and started again while a tree is copied: a hard mount waits, and nothing is missing.
mkdir "$SCRATCH/many"
for number in $(seq 40); do
    head -c $((100000 + number)) /dev/urandom >"$SCRATCH/many/$number"
done
"$PAGEWELL" cp -r "$SCRATCH/many" "$direct&delay=3&timeo=100::/many" >"$SCRATCH/copy.log" 2>&1 &
copy=$!
# Not before it has mounted.
until [ "$(ls "$exported/many" 2>/dev/null | wc -l)" -ge 5 ]; do
    kill -0 "$copy" 2>/dev/null || fail "the copy ended: $(cat "$SCRATCH/copy.log")"
    sleep 0.02
done
kill -KILL "$ganesha_process"
wait "$ganesha_process" 2>/dev/null || true
start_ganesha "$exported" "$SCRATCH" "$ganesha_port"
wait "$copy" || fail "the copy: $(cat "$SCRATCH/copy.log")"
diff -r "$SCRATCH/many" "$exported/many"

# What a server that refuses says, in words: to calls from other ports than reserved ones, and of a
# version that it does not speak.
refused() { # TEXT URL
    ! "$PAGEWELL" ls "$2" >"$SCRATCH/out" 2>&1 || fail "it was let in: $2"
    [ "$(wc -l <"$SCRATCH/out")" = 1 ] || fail "not one line: $(cat "$SCRATCH/out")"
    grep -qF -- "$1" "$SCRATCH/out" || fail "'$1' is not said: $(cat "$SCRATCH/out")"
}
again() {
    kill -KILL "$ganesha_process"
    wait "$ganesha_process" 2>/dev/null || true
    start_ganesha "$exported" "$SCRATCH" "$ganesha_port"
}
ganesha_reserved=true
again
refused 'servers often serve only ports below 1024' "$direct&noresvport"
"$PAGEWELL" ls "$direct" >"$SCRATCH/out"
ganesha_version=4
again
refused 'speaks NFS version 4 only' "nfs://127.0.0.1:$ganesha_port/shared"

# Ready line, mount commands, counters over HTTP, and a clean stop.
. "$(dirname "$0")/../lib.sh"

mkdir "$SCRATCH/served"
head -c 3000000 /dev/urandom >"$SCRATCH/served/file"
serve --http 127.0.0.1:0 "/dir=$SCRATCH/served" /ram=ram:1m
[ "$(cat "$SCRATCH/ready")" = "ready nfs://127.0.0.1:$PORT/dir nfs://127.0.0.1:$PORT/ram" ] ||
    fail "ready line: $(cat "$SCRATCH/ready")"
for word in "port=$PORT" nolock nolocks; do
    grep -qF -- "$word" "$SCRATCH/server.log" || fail "no '$word' on standard error"
done
http=$(sed -nE 's,.*metrics http://([^/]+)/metrics.*,\1,p' "$SCRATCH/server.log")
[ -n "$http" ] || fail 'the address of the metrics is not told'

nfs-cat "$(url /dir/file)" | cmp - "$SCRATCH/served/file"

get() { # PATH
    exec 5<>"/dev/tcp/${http%:*}/${http##*:}"
    printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$1" >&5
    cat <&5
    exec 5>&-
}
get /metrics >"$SCRATCH/metrics"
grep -Eq '^pagewell_[a-z_]+(\{[^}]*\})? [0-9]' "$SCRATCH/metrics" || { cat "$SCRATCH/metrics"; fail metrics; }
get /stat.json | sed '1,/^\r*$/d' >"$SCRATCH/stat.json"
grep -q '^{' "$SCRATCH/stat.json" || { cat "$SCRATCH/stat.json"; fail 'stat.json'; }
get /nothing | head -n 1 | grep -q ' 404 ' || fail 'no 404 for an unknown page'
"$PAGEWELL" counters --connect "$http" | tee "$SCRATCH/counters"
grep -Eiq '^ *read .*[1-9]' "$SCRATCH/counters" || fail 'no READ was counted'

# A connection that says nothing does not hold up the stop.
exec 6<>"/dev/tcp/127.0.0.1/$PORT"
stop_server
exec 6>&-
! is_listening "$PORT" || fail 'something listens after the stop'
# The port is free at once.
serve_again
kill -INT "$SERVER"
status=0
wait "$SERVER" || status=$?
SERVER=
[ "$status" = 0 ] || fail "status $status after SIGINT"

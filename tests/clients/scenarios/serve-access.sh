# Who may do what: squashing, read-only exports, networks that are not allowed.
. "$(dirname "$0")/../lib.sh"

mkdir "$SCRATCH/served"
chmod 777 "$SCRATCH/served"
printf 'text\n' >"$SCRATCH/served/file"
printf 'new\n' >"$SCRATCH/new"

owner() { stat -c %u "$SCRATCH/served/$1"; }
refused() { # PATH: it cannot be written
    ! nfs-cp "$SCRATCH/new" "$(url "$@")" >"$SCRATCH/log" 2>&1 || fail "$1 was written"
}

if is_root; then
    chmod 600 "$SCRATCH/served/file"
    serve "/dir=$SCRATCH/served"
    nfs-cp "$SCRATCH/new" "$(url /dir/by-root uid=0 gid=0)" >/dev/null
    [ "$(owner by-root)" = 65534 ] || fail "root was not squashed: $(owner by-root)"
    nfs-cp "$SCRATCH/new" "$(url /dir/by-user uid=1001 gid=1001)" >/dev/null
    [ "$(owner by-user)" = 1001 ] || fail "uid 1001 was changed to $(owner by-user)"
    ! nfs-cat "$(url /dir/file uid=1001 gid=1001)" >/dev/null 2>&1 || fail 'a private file was read'
    stop_server

    serve --squash all --anon-uid 1234 --anon-gid 1235 "/dir=$SCRATCH/served"
    nfs-cp "$SCRATCH/new" "$(url /dir/all uid=1001 gid=1001)" >/dev/null
    [ "$(stat -c %u:%g "$SCRATCH/served/all")" = 1234:1235 ] || fail 'not squashed to the anonymous user'
    stop_server
fi

serve --squash none --read-only "/dir=$SCRATCH/served" /ram=ram:1m
nfs-ls "$(url /dir)" | grep -q ' file$' || fail 'a read-only export cannot be listed'
refused /dir/forbidden
refused /ram/forbidden
stop_server

# Allowed are others, not loopback.
serve --allow 192.0.2.0/24 --no-loopback "/dir=$SCRATCH/served"
! nfs-ls "$(url /dir)" >"$SCRATCH/log" 2>&1 || fail 'an address that is not allowed could mount'
stop_server
serve --allow 192.0.2.0/24 "/dir=$SCRATCH/served"
nfs-ls "$(url /dir)" >"$SCRATCH/log" || fail 'an allowed address could not mount'
stop_server

# What cannot be served is told on one line of standard error that names it, with exit status 1
# (it failed) or 2 (it makes no sense), and nothing listens.
. "$(dirname "$0")/../lib.sh"

mkdir "$SCRATCH/one" "$SCRATCH/two"
head -c 100000 /dev/urandom >"$SCRATCH/no-image"
: >"$SCRATCH/nothing"
serve "/dir=$SCRATCH/one"
taken=$PORT

# refuses STATUS TEXT ARGUMENT...: TEXT is part of the line.
refuses() {
    local expected=$1 text=$2 status=0 lines
    shift 2
    timeout 120 "$PAGEWELL" serve --state-dir "$SCRATCH/state" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null || status=$?
    lines=$(wc -l <"$SCRATCH/err")
    cat "$SCRATCH/err"
    [ "$status" = "$expected" ] || fail "status $status instead of $expected: serve $*"
    [ "$lines" = 1 ] || fail "$lines lines on standard error: serve $*"
    [ ! -s "$SCRATCH/out" ] || fail "something on standard output: serve $*"
    grep -qF -- "$text" "$SCRATCH/err" || fail "'$text' is not named: serve $*"
    ! is_listening "$free" || fail "something listens: serve $*"
}

# A port that nobody has: ours, after it was given back.
free=$((taken + 1))
while is_listening "$free"; do free=$((free + 1)); done
on=(--listen "127.0.0.1:$free")

refuses 1 "127.0.0.1:$taken" --listen "127.0.0.1:$taken" "$SCRATCH/two"
refuses 1 "$SCRATCH/absent" "${on[@]}" "$SCRATCH/absent"
refuses 1 "$SCRATCH/absent" "${on[@]}" "/good=$SCRATCH/one" "/bad=$SCRATCH/absent"
refuses 1 "$SCRATCH/no-image" "${on[@]}" "iso:$SCRATCH/no-image"
refuses 1 "$SCRATCH/nothing" "${on[@]}" "iso:$SCRATCH/nothing"
refuses 1 "$SCRATCH/no-image" "${on[@]}" "dir:$SCRATCH/no-image"
# What people write that know other programs, or LOCATIONs: it is told what to write instead.
: >"$SCRATCH/one/file"
make_iso "$SCRATCH/a.iso" "$SCRATCH/one"
refuses 2 "here that is $SCRATCH/a.iso" "${on[@]}" "$SCRATCH/a.iso::/sub"
refuses 2 "here that is $SCRATCH/a.iso" "${on[@]}" "/iso=$SCRATCH/a.iso/sub"
refuses 2 "give all of $SCRATCH/a.iso" "${on[@]}" "$SCRATCH/a.iso:/sub"
refuses 2 "this directory is $SCRATCH/one/sub" "${on[@]}" "$SCRATCH/one::/sub"
refuses 2 "write /data=$SCRATCH/one" "${on[@]}" "$SCRATCH/one" /data
refuses 2 'as /data=' "${on[@]}" "data=$SCRATCH/one"
refuses 2 '/data=: the source' "${on[@]}" /data=
refuses 2 'written nfs://host/x' "${on[@]}" nfs4://host/x
refuses 2 "written $SCRATCH/one" "${on[@]}" "file://$SCRATCH/one"
# The same of what is read, here from the server that runs.
told() { # TEXT ARGUMENT...
    local text=$1
    shift
    ! timeout 120 "$PAGEWELL" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null ||
        fail "no failure: $*"
    grep -qF -- "$text" "$SCRATCH/err" || fail "'$text' is not said: $*: $(cat "$SCRATCH/err")"
}
mkdir "$SCRATCH/nowhere"
told "written $SCRATCH/a.iso::/sub" ls "$SCRATCH/a.iso/sub"
told "written $SCRATCH/a.iso::/sub" cat "$SCRATCH/a.iso:sub"
told "written $SCRATCH/a.iso::/sub" cp "$SCRATCH/no-image" "$SCRATCH/a.iso/sub"
told 'written nfs://HOST/EXPORT::/PATH' cat "nfs://127.0.0.1:$taken/dir/file"
told 'it has /dir' ls "nfs://127.0.0.1:$taken/dir/absent"
server=nfs://127.0.0.1:$taken
told 'not a directory; the export is /dir' mount "$server/dir/file" "$SCRATCH/nowhere"
told "written $server/dir/x)" mount "$server/dir::/x" "$SCRATCH/nowhere"
told "here that is $SCRATCH/a.iso" mount "$SCRATCH/a.iso::/sub" "$SCRATCH/nowhere"
refuses 2 'nonsense:' "${on[@]}" 'nonsense:x'
refuses 2 'ram:0' "${on[@]}" ram:0
refuses 2 'ram:lots' "${on[@]}" ram:lots
refuses 2 '/same' "${on[@]}" "/same=$SCRATCH/one" "/same=$SCRATCH/two"
refuses 2 --lisen --lisen "127.0.0.1:$free" "$SCRATCH/one"
refuses 2 'nowhere' --listen nowhere "$SCRATCH/one"
refuses 2 SOURCE "${on[@]}"
refuses 2 --allow --listen "0.0.0.0:$free" "$SCRATCH/one"
refuses 2 '10.0.0.0/40' "${on[@]}" --allow 10.0.0.0/40 "$SCRATCH/one"
refuses 2 'some' "${on[@]}" --squash some "$SCRATCH/one"
if ! is_root; then
    chmod 000 "$SCRATCH/two"
    refuses 1 "$SCRATCH/two" "${on[@]}" "$SCRATCH/two"
    chmod 755 "$SCRATCH/two"
elif setpriv --reuid 65534 --clear-groups test -x "$PAGEWELL"; then
    chmod 700 "$SCRATCH/two"
    install -d -o 65534 -g 65534 "$SCRATCH/nobody"
    status=0
    timeout 120 setpriv --reuid 65534 --regid 65534 --clear-groups "$PAGEWELL" serve \
        --state-dir "$SCRATCH/nobody/state" "${on[@]}" "$SCRATCH/two" \
        >"$SCRATCH/out" 2>"$SCRATCH/err" || status=$?
    cat "$SCRATCH/err"
    [ "$status" = 1 ] || fail "status $status for a directory that may not be read"
    grep -qF "$SCRATCH/two" "$SCRATCH/err" || fail 'the unreadable directory is not named'
fi

# The server that ran all the time is unharmed.
nfs-ls "$(url /dir)"
stop_server
! is_listening "$taken" || fail 'something listens after the stop'

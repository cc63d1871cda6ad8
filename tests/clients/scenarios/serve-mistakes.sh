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
    timeout 20 "$PAGEWELL" serve --state-dir "$SCRATCH/state" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null || status=$?
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
    timeout 20 setpriv --reuid 65534 --regid 65534 --clear-groups "$PAGEWELL" serve \
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

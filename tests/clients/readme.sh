# Read by the scenarios that run the tasks of README.md as they stand there, in a network and a
# tree of mounts of their own, where /srv, the machine "nas" and the ports are the scenario's.

# task TEXT: the lines of the block behind the paragraph of README.md that begins so in bold.
task() {
    awk -v head="**$1" '
        index($0, head) == 1 { found = 1 }
        found && /^```/ { if (inside) exit; inside = 1; next }
        inside
    ' "$REPOSITORY/README.md" | grep . || fail "README.md has no task '$1'"
}

# step_inside: begins the scenario again in namespaces of its own, once.
step_inside() {
    is_root || skip 'namespaces of its own take root'
    for program in rpcbind ip setpriv; do
        command -v $program >/dev/null || skip "$program is missing"
    done
    if [ -z "${README_INSIDE-}" ]; then
        unshare -n -m true 2>/dev/null || skip 'no network of its own is permitted'
        # What may have to be fetched is fetched while there is a network.
        "$REPOSITORY/tests/guest/kernel.sh" >/dev/null
        "$REPOSITORY/tests/guest/tools.sh" >/dev/null
        # Nothing is to be ended yet.
        trap - EXIT ERR
        README_INSIDE=yes exec unshare -n -m bash "$0"
    fi
    "$CLIENTS/alone.sh"
    ip link set lo up
    mount -t tmpfs none /srv
    mkdir -p "$SCRATCH/bin"
    ln -sf "$PAGEWELL" "$SCRATCH/bin/pagewell"
    PATH=$SCRATCH/bin:$PATH
}

# start_line LINE: runs a line that serves, in the background, until it is ready.
start_line() {
    local waited=0
    : >"$SCRATCH/ready"
    XDG_STATE_HOME=$SCRATCH/state bash -c "exec $1" >"$SCRATCH/ready" 2>>"$SCRATCH/server.log" &
    SERVER=$!
    until grep -q '^ready ' "$SCRATCH/ready"; do
        kill -0 "$SERVER" 2>/dev/null || fail "the server ended: $1"
        [ $((waited += 1)) -le 2400 ] || fail 'the server was not ready after two minutes'
        sleep 0.05
    done
}

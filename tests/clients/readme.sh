# Read by the scenarios that run the tasks of README.md as they stand there, where /srv, the machine
# "nas" and the ports are the scenario's.
. "$CLIENTS/network.sh"

# task TEXT: the lines of the block behind the paragraph of README.md that begins so in bold.
task() {
    awk -v head="**$1" '
        index($0, head) == 1 { found = 1 }
        found && /^```/ { if (inside) exit; inside = 1; next }
        inside
    ' "$REPOSITORY/README.md" | grep . || fail "README.md has no task '$1'"
}

# own_machine: a network, /srv, and a program "pagewell" of the scenario's own.
own_machine() {
    own_network
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

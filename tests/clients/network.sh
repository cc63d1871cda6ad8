# Read by the scenarios that need a network and mounts of their own.

# own_network: begins the scenario again in namespaces of its own, once.
own_network() {
    is_root || skip 'a network of its own takes root'
    for program in rpcbind ip; do
        command -v $program >/dev/null || skip "$program is missing"
    done
    if [ -z "${NETWORK_INSIDE-}" ]; then
        unshare -n -m true 2>/dev/null || skip 'no network of its own is permitted'
        # What may have to be fetched is fetched while there is a network.
        "$REPOSITORY/tests/guest/kernel.sh" >/dev/null
        "$REPOSITORY/tests/guest/tools.sh" >/dev/null
        # Nothing is to be ended yet.
        trap - EXIT ERR
        NETWORK_INSIDE=yes exec unshare -n -m bash "$0"
    fi
    "$CLIENTS/alone.sh"
    ip link set lo up
}

# start_port_mapper: until it answers. It ends with the scenario.
start_port_mapper() {
    mount -t tmpfs none /run
    rpcbind -f -w &
    mapper=$!
    end_started() { kill "$mapper" 2>/dev/null || true; }
    until rpcinfo -p 127.0.0.1 >/dev/null 2>&1; do
        kill -0 "$mapper" 2>/dev/null || fail 'rpcbind ended'
        sleep 0.1
    done
}

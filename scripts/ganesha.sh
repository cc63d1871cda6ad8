# Starts nfs-ganesha (VFS) on a directory, with a port mapper if there is none. Read by scripts that
# measure or try Pagewell beside it; they define die, and end the processes in `started`.
#
# It has to run in a network of its own: nfs-ganesha registers with the port mapper and would replace
# what another NFS server of the machine has registered there.

started=()
# The version of NFS that it is to speak, and whether it serves reserved ports only.
ganesha_version=3
ganesha_reserved=false

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_port() {
    local port
    while port=$((20000 + RANDOM % 10000)); listens "$port"; do :; done
    echo "$port"
}

wait_until() { # SECONDS PROCESS COMMAND...
    local tries=$(($1 * 10)) process=$2
    shift 2
    while [ "$tries" -gt 0 ]; do
        "$@" && return
        kill -0 "$process" 2>/dev/null || return 1
        sleep 0.1
        tries=$((tries - 1))
    done
    return 1
}

# In a network and a mount name space of its own (unshare -n -m).
prepare_network() {
    # The second address is used by nobody, but with none except 127.0.0.1 the C library takes the
    # machine for one without IPv4 and finds no address for "127.0.0.1" (getaddrinfo(3),
    # AI_ADDRCONFIG), which nfs-ganesha asks it for. It is one of those reserved for documentation.
    ip link set lo up && ip address add 192.0.2.1/32 dev lo && mount -t tmpfs none /run
}

# start_ganesha DIRECTORY WORK [PORT]: exports DIRECTORY as /shared, keeps its files in WORK, and
# leaves its ports in ganesha_port and ganesha_mount_port, its process in ganesha_process.
start_ganesha() {
    local directory=$1 work=$2 plugins
    if ! listens 111; then
        # Without a port mapper nfs-ganesha refuses to serve NFS version 3.
        rpcbind -f >"$work/rpcbind.log" 2>&1 &
        started+=($!)
        wait_until 60 $! listens 111 || { cat "$work/rpcbind.log" >&2; die 'rpcbind fails'; }
    fi
    ganesha_port=${3:-$(free_port)}
    ganesha_mount_port=$((ganesha_port + 1))
    plugins=$(find /usr/lib -name libfsalvfs.so -printf '%h\n' -quit)
    [ -n "$plugins" ] || die 'the VFS part of nfs-ganesha is missing (package nfs-ganesha-vfs)'
    mkdir -p /run/ganesha
    rm -f "$work/ganesha.log"
    cat >"$work/ganesha.conf" <<END
NFS_CORE_PARAM {
    NFS_Port = $ganesha_port; MNT_Port = $ganesha_mount_port; Bind_addr = 127.0.0.1; Protocols = $ganesha_version;
    Enable_NLM = false; Enable_RQUOTA = false; Plugins_Dir = $plugins;
    mount_path_pseudo = true;
}
NFS_KRB5 { Active_krb5 = false; }
NFSv4 { Graceless = true; }
EXPORT {
    Export_Id = 1; Path = $directory; Pseudo = /shared; Protocols = $ganesha_version; Transports = TCP;
    Access_Type = RW; Squash = No_Root_Squash; SecType = sys; PrivilegedPort = $ganesha_reserved;
    FSAL { Name = VFS; }
}
END
    ganesha.nfsd -F -f "$work/ganesha.conf" -L "$work/ganesha.log" -p "$work/ganesha.pid" \
        -N NIV_EVENT >"$work/ganesha.out" 2>&1 &
    ganesha_process=$!
    started+=("$ganesha_process")
    if ! wait_until 120 "$ganesha_process" \
        grep -q 'NFS SERVER INITIALIZED' "$work/ganesha.log" 2>/dev/null; then
        tail -n 20 "$work/ganesha.out" "$work/ganesha.log" >&2
        die 'nfs-ganesha does not start'
    fi
}

# Ends what was started, and waits for it.
end_started() {
    local process
    for process in "${started[@]}"; do
        kill "$process" 2>/dev/null || true
    done
    for process in "${started[@]}"; do
        for _ in {1..100}; do
            kill -0 "$process" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$process" 2>/dev/null || true
    done
    started=()
}

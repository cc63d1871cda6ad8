# Uses a foreign server, nfs-ganesha, through nfs:// sources: trees there and back, changes on both
# sides, and the server killed and started again under a copy.
. "$(dirname "$0")/../lib.sh"

is_root || skip 'nfs-ganesha opens files by handle, which takes root'
command -v ganesha.nfsd >/dev/null || skip 'no nfs-ganesha (scripts/packages.sh bench)'
command -v rpcbind >/dev/null || skip 'no rpcbind (scripts/packages.sh bench)'
if [ -z "${GANESHA_INSIDE-}" ]; then
    # It registers with the port mapper: not with that of the machine.
    unshare -n -m true 2>/dev/null || skip 'no network of its own is permitted'
    trap - EXIT ERR
    GANESHA_INSIDE=yes exec unshare -n -m bash "$0"
fi
# Without a second address getaddrinfo(3) takes the machine for one without IPv4.
ip link set lo up && ip address add 192.0.2.1/32 dev lo && mount -t tmpfs none /run

plugins=$(find /usr/lib -name libfsalvfs.so -printf '%h\n' -quit)
[ -n "$plugins" ] || skip 'no VFS part of nfs-ganesha (package nfs-ganesha-vfs)'
nfs=20149
exported=$SCRATCH/exported
mkdir -p /run/ganesha "$exported" "$SCRATCH/from"
chmod 777 "$exported"
cat >"$SCRATCH/ganesha.conf" <<END
NFS_CORE_PARAM {
    NFS_Port = $nfs; MNT_Port = $((nfs + 1)); Bind_addr = 127.0.0.1; Protocols = 3;
    Enable_NLM = false; Enable_RQUOTA = false; Plugins_Dir = $plugins;
    mount_path_pseudo = true;
}
NFS_KRB5 { Active_krb5 = false; }
NFSv4 { Graceless = true; }
EXPORT {
    Export_Id = 1; Path = $exported; Pseudo = /shared; Protocols = 3; Transports = TCP;
    Access_Type = RW; Squash = No_Root_Squash; SecType = sys; PrivilegedPort = false;
    FSAL { Name = VFS; }
}
END
rpcbind -f >"$SCRATCH/rpcbind.log" 2>&1 &
mapper=$!
start_ganesha() {
    local waited=0
    : >"$SCRATCH/ganesha.log"
    ganesha.nfsd -F -f "$SCRATCH/ganesha.conf" -L "$SCRATCH/ganesha.log" \
        -p "$SCRATCH/ganesha.pid" -N NIV_EVENT >"$SCRATCH/server.log" 2>&1 &
    SERVER=$!
    until grep -q 'NFS SERVER INITIALIZED' "$SCRATCH/ganesha.log"; do
        kill -0 "$SERVER" 2>/dev/null || fail "nfs-ganesha ended: $(tail -n 5 "$SCRATCH/ganesha.log")"
        [ $((waited += 1)) -le 1200 ] || fail 'nfs-ganesha does not start'
        sleep 0.1
    done
}
trap 'kill "$mapper" 2>/dev/null || true; finish' EXIT
start_ganesha

# Its MOUNT has a port of its own, which the port mapper knows.
url=nfs://127.0.0.1:$nfs/shared
direct="$url?mountport=$((nfs + 1))"
make_tree "$SCRATCH/from"
head -c 20000000 /dev/urandom >"$SCRATCH/from/big"

"$PAGEWELL" ls "$url" >"$SCRATCH/empty"
[ ! -s "$SCRATCH/empty" ] || fail 'an empty export lists names'
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

"$PAGEWELL" ls "nfs://127.0.0.1:$nfs/nowhere?mountport=$((nfs + 1))" >"$SCRATCH/out" 2>&1 &&
    fail 'an export that is not there was mounted'
[ "$(wc -l <"$SCRATCH/out")" = 1 ] || fail "not one line: $(cat "$SCRATCH/out")"

# Killed and started again while a tree is copied: a hard mount waits, and nothing is missing.
mkdir "$SCRATCH/many"
for number in $(seq 40); do
    head -c $((100000 + number)) /dev/urandom >"$SCRATCH/many/$number"
done
"$PAGEWELL" cp -r "$SCRATCH/many" "$direct&delay=3&timeo=10::/many" >"$SCRATCH/copy.log" 2>&1 &
copy=$!
sleep 0.4
kill -KILL "$SERVER"
wait "$SERVER" 2>/dev/null || true
start_ganesha
wait "$copy" || fail "the copy: $(cat "$SCRATCH/copy.log")"
diff -r "$SCRATCH/many" "$exported/many"
